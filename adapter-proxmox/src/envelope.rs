//! The one shape around every answer: `{"data": …}`.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The answer is not JSON of the promised shape, or its data is null or missing (which older servers answer with 200).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer has no data of the promised shape")]
pub(crate) struct NoData;

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Envelope<T> {
    data: Option<T>,
}

/// Takes the data out of an answer in one pass, without building a tree of it first.
///
/// The parser's own reason is dropped: it can quote the upstream.
pub(crate) fn unwrap_data<T: DeserializeOwned>(body: &str) -> Result<T, NoData> {
    serde_json::from_str::<Envelope<T>>(body).ok().and_then(|envelope| envelope.data).ok_or(NoData)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: P-03, C-N11, C-N13
    #[test]
    fn an_answer_without_data_is_an_error() {
        for body in [
            "",
            "null",
            "{}",
            "[]",
            r#"{"data":null}"#,
            r#"{"data":null,"errors":{"node":"x"}}"#,
            r#"{"data":[1]"#,
            r#"{"data":[1]} trailing"#,
            r#"{"data":{"a":1}}"#,
            "<html><body>Log in</body></html>",
        ] {
            assert_eq!(unwrap_data::<Vec<u32>>(body), Err(NoData), "{body}");
        }
    }

    #[test]
    fn what_is_beside_the_data_is_ignored() {
        assert_eq!(unwrap_data::<Vec<u32>>(r#"{"success":1,"data":[1,2],"total":2}"#), Ok(vec![1, 2]));
    }

    // proves: C-N11
    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        // What is skipped is skipped in a loop; what is read has a limit.
        assert_eq!(unwrap_data::<Vec<u32>>(&format!("{{\"data\":[1],\"x\":{deep}}}")), Ok(vec![1]));
        assert_eq!(unwrap_data::<serde_json::Value>(&format!("{{\"data\":{deep}}}")), Err(NoData));
    }
}
