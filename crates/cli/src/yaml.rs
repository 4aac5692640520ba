//! Formats JSON values as YAML for people: in block style, with double quotes around strings that YAML could read as
//! something else.

use serde_json::Value;

/// Formats a value as a block, with a newline at its end.
pub(crate) fn block(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0, true);
    text
}

/// Writes a value at an indentation. On a fresh line only the indentation has been written.
fn write(text: &mut String, value: &Value, depth: usize, is_fresh: bool) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            if !is_fresh {
                text.push('\n');
            }
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 || !is_fresh {
                    text.push_str(&" ".repeat(depth));
                }
                text.push_str(&scalar(name));
                text.push(':');
                // List items have the indentation of their key.
                let depth = if value.is_array() { depth } else { depth + 2 };
                write(text, value, depth, false);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            text.push('\n');
            for item in items {
                text.push_str(&" ".repeat(depth));
                text.push_str("- ");
                write(text, item, depth + 2, true);
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            text.push_str(&format!("{}[{}]\n", if is_fresh { "" } else { " " }, items.join(", ")));
        }
        other => {
            text.push_str(&format!("{}{}\n", if is_fresh { "" } else { " " }, inline(other)));
        }
    }
}

fn inline(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), scalar)
}

/// Formats a string: plain if it is a simple word, else in double quotes, which YAML reads as JSON does.
fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'/'))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if is_word { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::block;

    #[test]
    fn a_block_reads_as_the_value_that_was_written() {
        for value in [
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "a:b"}, "rules": [
                {"apiGroups": [""], "resources": ["nodes/pods", "*"], "verbs": ["get"]},
                {"verbs": [], "nested": [[1, 2], ["x"]]},
            ]}),
            json!({"a": "yes", "b": "1", "c": "\"\n#: -", "d": null, "e": {}, "f": [], "g": {"h": {"i": "é\u{85}"}}}),
        ] {
            let text = block(&value);
            let read: serde_json::Value =
                serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(read, value, "{text}");
        }
    }
}
