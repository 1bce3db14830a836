//! The closed registry: nine definitions with their compiled schemas, and the screens of those tools that have one.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use mcp_core::error::CallError;
use mcp_core::policy::Screen;
use mcp_core::tool::{ToolDefinition, ToolName, catalogue};
use serde_json::{Map, Value};

struct Entry {
    definition: &'static ToolDefinition,
    validator: Validator,
    screen: Option<Arc<dyn Screen>>,
}

pub(crate) struct Registry {
    entries: BTreeMap<ToolName, Entry>,
}

impl Registry {
    /// # Errors
    /// The tool whose schema does not compile, or whose screen is missing.
    pub(crate) fn new(mut screens: BTreeMap<ToolName, Arc<dyn Screen>>) -> Result<Self, ToolName> {
        let mut entries = BTreeMap::new();
        for definition in catalogue() {
            let name = definition.name;
            let validator = jsonschema::validator_for(&definition.input_schema).map_err(|_| name)?;
            let screen = screens.remove(&name);
            // A tool that takes a command never runs unscreened, not even by a mistake in the wiring.
            if name == ToolName::SshRunWhitelistedCommand && screen.is_none() {
                return Err(name);
            }
            entries.insert(name, Entry { definition, validator, screen });
        }
        Ok(Self { entries })
    }

    pub(crate) fn screen(&self, name: &str) -> Option<&dyn Screen> {
        let entry = self.entries.get(&ToolName::parse(name)?)?;
        entry.screen.as_deref()
    }

    /// Checks arguments against the tool's schema, and against the type behind it.
    pub(crate) fn check_arguments(&self, tool: ToolName, args: &Map<String, Value>) -> Result<(), CallError> {
        let entry = self.entries.get(&tool).ok_or(CallError::Internal)?;
        let instance = Value::Object(args.clone());
        if let Some(error) = entry.validator.iter_errors(&instance).next() {
            return Err(explain(&error));
        }
        entry.definition.check_types(args).map_err(|error| {
            // What fits the schema and not the type is a number such as `1e3`, whole in value and not in form.
            let float = args.iter().find(|(_, value)| value.is_f64()).map(|(name, _)| clip(name));
            match float {
                Some(field) => CallError::InvalidArguments {
                    message: format!(
                        "{field} must be a whole number, written without a point or an exponent"
                    ),
                    field,
                },
                None => {
                    CallError::InvalidArguments { field: String::new(), message: clip(&error.to_string()) }
                }
            }
        })
    }
}

fn explain(error: &jsonschema::ValidationError<'_>) -> CallError {
    let path = error.instance_path().to_string();
    let path = path.trim_start_matches('/');
    let field = match error.kind() {
        ValidationErrorKind::Required { property } => join(path, property.as_str().unwrap_or_default()),
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            join(path, unexpected.first().map_or("", String::as_str))
        }
        _ => path.to_owned(),
    };
    let field = clip(&field);
    let message = match error.kind() {
        ValidationErrorKind::Required { .. } => format!("{field} is missing"),
        ValidationErrorKind::AdditionalProperties { .. } => {
            format!("{field} is not an argument of this tool")
        }
        // The offending value is masked: an argument can hold what should not stand in a log.
        _ => clip(&format!("{field}: {}", error.masked_with("the value"))),
    };
    CallError::InvalidArguments { field, message }
}

fn join(path: &str, last: &str) -> String {
    if path.is_empty() { last.to_owned() } else { format!("{path}/{last}") }
}

/// Messages name fields, and field names come from the caller.
fn clip(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    struct Open;

    impl Screen for Open {
        fn screen(&self, _: &Map<String, Value>) -> Result<(), String> {
            Ok(())
        }
    }

    fn registry() -> Registry {
        let ssh: Arc<dyn Screen> = Arc::new(Open);
        Registry::new([(ToolName::SshRunWhitelistedCommand, ssh)].into()).expect("a registry")
    }

    fn refused_field(tool: ToolName, args: Value) -> Option<String> {
        match registry().check_arguments(tool, args.as_object().expect("an object")) {
            Err(CallError::InvalidArguments { field, message }) => {
                assert!(!message.is_empty());
                Some(field)
            }
            Ok(()) => None,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_tool_without_a_screen_is_not_built() {
        assert_eq!(Registry::new(BTreeMap::new()).err(), Some(ToolName::SshRunWhitelistedCommand));
    }

    // proves: T-14, C-F09
    #[test]
    fn the_refusal_names_the_field() {
        let tool = ToolName::ProxmoxGetVmStatus;
        assert_eq!(refused_field(tool, json!({"node": "pve1"})).as_deref(), Some("vmid"));
        assert_eq!(refused_field(tool, json!({"node": "pve1", "vmid": 100, "x": 1})).as_deref(), Some("x"));
        assert_eq!(refused_field(tool, json!({"node": "a/b", "vmid": 100})).as_deref(), Some("node"));
        assert_eq!(refused_field(tool, json!({"node": "pve1", "vmid": 100})), None);
    }

    // proves: C-F05
    #[test]
    fn a_vmid_is_a_whole_number_in_range() {
        let bad = [
            json!(-1),
            json!(0),
            json!(99),
            json!(1_000_000_000_u64),
            json!(1e3),
            json!("100"),
            json!(100.5),
        ];
        for vmid in bad {
            let args = json!({"node": "pve1", "vmid": vmid});
            assert_eq!(refused_field(ToolName::ProxmoxGetVmStatus, args).as_deref(), Some("vmid"), "{vmid}");
        }
    }

    // proves: C-F04, C-Q22
    #[test]
    fn a_path_cannot_hide_in_an_argument() {
        for node in [
            "pve/../../access/ticket",
            "%2e%2e",
            "a?b",
            "a#b",
            "a;b",
            "a\r\nb",
            "a\u{2215}b",
            "..",
            "a\0",
            "",
        ] {
            assert!(refused_field(ToolName::ProxmoxListVms, json!({"node": node})).is_some(), "{node:?}");
        }
        for repo in ["../x", "a/b", "%2f", ".", "..", "a\u{2024}b", "a\0b"] {
            let args = json!({"owner": "o", "repo": repo});
            assert!(refused_field(ToolName::GithubGetRecentCiRuns, args.clone()).is_some(), "{repo:?}");
            assert!(refused_field(ToolName::GiteaGetRecentCiRuns, args).is_some(), "{repo:?}");
        }
    }

    proptest! {
        #[test]
        fn a_value_is_never_quoted_back(value in "[a-z]{12,40}") {
            let args = json!({"node": format!("{value}/")});
            let refused = registry().check_arguments(ToolName::ProxmoxListVms, args.as_object().expect("object"));
            prop_assert!(!refused.expect_err("refused").message().contains(&value));
        }
    }
}
