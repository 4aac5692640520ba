//! Questions to the page that explains decisions in the browser. An answer is valid JSON with a decision or an error, and the same
//! question always gets the same answer.

use portcullis_explain_page::answer;
use serde_json::Value;

pub(super) const QUESTION: &[&str] = &[
    "\"objects\":\"\",",
    "\"defaultPolicy\":true,",
    "\"spec\":{\"user\":\"system:node:n\",\"groups\":[\"system:nodes\"]},",
    "\"resourceAttributes\":{\"verb\":\"get\",\"resource\":\"secrets\",\"namespace\":\"a\",\"name\":\"b\"}",
    "\"nonResourceAttributes\":{\"verb\":\"get\",\"path\":\"/healthz\"}",
    "\\\"kind\\\":\\\"List\\\",",
    "\\\"items\\\":[",
    "\\\"kind\\\":\\\"Pod\\\",",
    "\\\"kind\\\":\\\"ClusterRoleBinding\\\",",
    "\\n---\\n",
    "\\n",
    "null",
];

pub(super) fn explain_page(input: &[u8]) -> bool {
    let Ok(question) = std::str::from_utf8(input) else { return false };
    let text = answer(question);
    assert_eq!(text, answer(question), "a question has one answer");
    let read: Value = serde_json::from_str(&text).expect("an answer is JSON");
    if let Some(error) = read.get("error") {
        assert!(error.as_str().is_some_and(|error| !error.is_empty()), "{text}");
        return false;
    }
    let decision = read.get("decision").and_then(Value::as_str);
    assert!(matches!(decision, Some("yes" | "no" | "unknown")), "{text}");
    true
}
