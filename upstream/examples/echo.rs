//! Takes a credential out of an answer that repeats it.

use mcp_core::secret::SecretValue;
use serde_json::json;
use upstream::redact::redact;

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    let answer = json!({"message": "bad token: s3cret", "rows": [{"header": "token s3cret"}]});
    let mut answer = answer.as_object().cloned().unwrap_or_default();
    redact(&mut answer, &SecretValue::new("s3cret".to_owned()));
    println!("{}", serde_json::Value::Object(answer));
}
