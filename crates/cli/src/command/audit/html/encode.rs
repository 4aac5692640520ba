//! Lists as the scripts read them: names that share their beginnings, numbers that follow each other, and JSON inside HTML.

use serde_json::{Value, json};

/// Front coding: for each name how much it shares with the one before, and the rest; -k where k names are left out. Lengths count
/// UTF-16 units, as scripts do.
pub(super) fn front<'n>(names: impl IntoIterator<Item = Option<&'n str>>) -> Value {
    let mut coded = Vec::new();
    let (mut last, mut left_out) = ("", 0_i64);
    for name in names {
        let Some(name) = name else {
            left_out = left_out.saturating_sub(1);
            continue;
        };
        if left_out < 0 {
            coded.push(json!(std::mem::take(&mut left_out)));
        }
        let shared = shared(last, name);
        let rest: String = name.chars().skip(shared).collect();
        coded.extend([json!(shared), Value::String(rest)]);
        last = name;
    }
    if left_out < 0 {
        coded.push(json!(left_out));
    }
    Value::Array(coded)
}

/// The length of what two names share at their beginning; 0 if a character of it takes two UTF-16 units.
fn shared(a: &str, b: &str) -> usize {
    let shared = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a);
    let (mut length, mut is_plain) = (0_usize, true);
    for c in shared {
        length = length.saturating_add(1);
        is_plain &= c.len_utf16() == 1;
    }
    if is_plain { length } else { 0 }
}

/// Sorted numbers as runs: the gap after the run before, and the length.
pub(super) fn runs(sorted: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let (mut runs, mut end) = (Vec::<u32>::new(), 0_u32);
    for number in sorted {
        match runs.last_mut() {
            Some(length) if number == end => *length = length.saturating_add(1),
            _ => runs.extend([number.saturating_sub(end), 1]),
        }
        end = number.saturating_add(1);
    }
    runs
}

/// JSON that no HTML parser takes for anything else.
pub(super) fn script_data(value: &Value) -> String {
    let json = value.to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{front, runs, script_data};

    #[test]
    fn names_share_their_beginnings() {
        assert_eq!(front([Some("cart-x7k2p"), Some("cart-z8f2q")]), json!([0, "cart-x7k2p", 5, "z8f2q"]));
        assert_eq!(front([None, Some("a"), None, None]), json!([-1, 0, "a", -2]));
        assert_eq!(front([Some("🔒a"), Some("🔒b")]), json!([0, "🔒a", 0, "🔒b"]));
    }

    #[test]
    fn numbers_are_runs() {
        assert_eq!(runs([3, 4, 5, 9]), [3, 3, 3, 1]);
        assert_eq!(runs([0]), [0, 1]);
        assert!(runs([]).is_empty());
    }

    #[test]
    fn json_has_no_markup_and_means_the_same() {
        let value = json!({"a": "</script><!-- & \u{2028}"});
        let text = script_data(&value);
        assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap_or_default(), value);
    }
}
