//! JSONPath, as far as printer columns need it: members, entries of lists, all of them, filters by one comparison, and
//! the search at any depth. Only the first value that a path leads to counts.

use serde_json::Value;

use crate::Map;

/// The most steps of a path. DIVERGES: Kubernetes has no limit.
const MAX_STEPS: usize = 64;
/// The most searches at any depth in a path. DIVERGES: Kubernetes has no limit.
const MAX_SEARCHES: usize = 1;

/// A path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Box<[Step]>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(Box<str>),
    All,
    /// From the end, if negative.
    Entry(i64),
    Slice(Option<i64>, Option<i64>),
    /// A part of each entry, compared with a value.
    Filter(Box<[Step]>, Comparison, Value),
    /// Members of this name, at any depth.
    Search(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path, such as `.spec.list[0].name`.
    ///
    /// # Errors
    /// The text is not a JSON path, or is too long.
    pub fn parse(text: &str) -> Result<Self, String> {
        let steps = steps(text)?;
        let searches = steps.iter().filter(|step| matches!(step, Step::Search(_))).count();
        if steps.len() > MAX_STEPS || searches > MAX_SEARCHES {
            return Err(format!("more than {MAX_STEPS} steps, or than {MAX_SEARCHES} search with `..`"));
        }
        Ok(Self { steps: steps.into() })
    }

    /// The first value that the path leads to.
    pub fn first<'v>(&self, object: &'v Map) -> Option<&'v Value> {
        match self.steps.split_first()? {
            (Step::Member(name), rest) => found(object.get(&**name)?, rest),
            (Step::All, rest) => object.values().find_map(|value| found(value, rest)),
            (Step::Search(name), rest) => {
                let own = object.get(&**name).and_then(|value| found(value, rest));
                own.or_else(|| object.values().find_map(|value| searched(value, name, rest)))
            }
            _ => None,
        }
    }
}

fn found<'v>(value: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match (step, value) {
        (Step::Member(name), Value::Object(object)) => found(object.get(&**name)?, rest),
        (Step::All, Value::Object(object)) => object.values().find_map(|value| found(value, rest)),
        (Step::All, Value::Array(entries)) => entries.iter().find_map(|entry| found(entry, rest)),
        (Step::Entry(at), Value::Array(entries)) => found(entries.get(place(*at, entries.len())?)?, rest),
        (Step::Slice(from, to), Value::Array(entries)) => {
            let length = entries.len();
            let from = from.map_or(Some(0), |at| place(at, length))?;
            let to = to.map_or(Some(length), |at| place(at, length)).unwrap_or(0).min(length);
            entries.get(from..to)?.iter().find_map(|entry| found(entry, rest))
        }
        (Step::Filter(of, comparison, with), Value::Array(entries)) => {
            let holds = |entry: &&'v Value| compares(found(entry, of), *comparison, with);
            entries.iter().filter(holds).find_map(|entry| found(entry, rest))
        }
        (Step::Search(name), value) => searched(value, name, rest),
        _ => None,
    }
}

fn searched<'v>(value: &'v Value, name: &str, rest: &[Step]) -> Option<&'v Value> {
    match value {
        Value::Object(object) => {
            let own = object.get(name).and_then(|value| found(value, rest));
            own.or_else(|| object.values().find_map(|value| searched(value, name, rest)))
        }
        Value::Array(entries) => entries.iter().find_map(|entry| searched(entry, name, rest)),
        _ => None,
    }
}

/// The place that a number means, counted from the end if it is negative.
fn place(at: i64, length: usize) -> Option<usize> {
    match usize::try_from(at) {
        Ok(at) => Some(at),
        Err(_) => length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?),
    }
}

fn compares(found: Option<&Value>, comparison: Comparison, with: &Value) -> bool {
    let Some(found) = found else { return false };
    let order = match (found, with) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match comparison {
        Comparison::Exists => true,
        Comparison::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
        Comparison::NotEqual => !order.is_some_and(std::cmp::Ordering::is_eq),
        Comparison::Less => order.is_some_and(std::cmp::Ordering::is_lt),
        Comparison::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
        Comparison::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        Comparison::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
    }
}

/// Reads the steps of a path.
fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            let (name, after) = member(after);
            if name.is_empty() {
                return Err("a search without a name".to_owned());
            }
            found.push(Step::Search(name.into()));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let (name, after) = member(after);
            match name.as_str() {
                "" if after.is_empty() && found.is_empty() => {}
                "" if after.starts_with('[') => {}
                "" => return Err("a step without a name".to_owned()),
                "*" => found.push(Step::All),
                _ => found.push(Step::Member(name.into())),
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (inner, after) = bracketed(after).ok_or("a bracket that does not end")?;
            found.push(bracket(inner.trim())?);
            rest = after;
        } else {
            return Err(format!("unexpected text {rest:?}"));
        }
        if found.len() > MAX_STEPS {
            return Err(format!("more than {MAX_STEPS} steps"));
        }
    }
    Ok(found)
}

/// A name up to the next dot or bracket, in which a backslash escapes, and the rest.
fn member(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' | ' ' => return (name, text.get(at..).unwrap_or_default()),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Splits at the closing bracket: the text before it, and the rest.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some((text.get(..at)?, text.get(at + 1..)?)),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Result<Step, String> {
    if inner == "*" {
        return Ok(Step::All);
    }
    if let Some(name) = quoted(inner) {
        return Ok(Step::Member(unescaped(name).into()));
    }
    if let Some(condition) = inner.strip_prefix("?(").and_then(|inner| inner.strip_suffix(')')) {
        return filter(condition.trim());
    }
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("not an index: {text:?}"));
    match inner.split_once(':') {
        None => number(inner).map(Step::Entry),
        Some((from, to)) => {
            let end = |text: &str| match text.trim() {
                "" => Ok(None),
                text => number(text).map(Some),
            };
            Ok(Step::Slice(end(from)?, end(to)?))
        }
    }
}

/// The text without the backslashes that escape.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
    plain
}

fn quoted(text: &str) -> Option<&str> {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"'))
}

fn filter(condition: &str) -> Result<Step, String> {
    const OPERATORS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let left_of = |text: &str| {
        let path = text.trim().strip_prefix('@').ok_or("a filter compares a part of `@`")?;
        steps(path)
    };
    let Some((at, operator, comparison)) = OPERATORS
        .iter()
        .filter_map(|(operator, comparison)| Some((condition.find(operator)?, *operator, *comparison)))
        .min_by_key(|(at, operator, _)| (*at, std::cmp::Reverse(operator.len())))
    else {
        return Ok(Step::Filter(left_of(condition)?.into(), Comparison::Exists, Value::Null));
    };
    let left = left_of(condition.get(..at).unwrap_or_default())?;
    let right = condition.get(at + operator.len()..).unwrap_or_default().trim();
    let value = match quoted(right) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(right).map_err(|_| format!("not a value: {right:?}"))?,
    };
    Ok(Step::Filter(left.into(), comparison, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_its_first_value() {
        let object = json!({
            "spec": {"a": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "m": {"k.l": "dotted"}},
            "status": {"conds": [{"type": "Other", "status": "F"}, {"type": "Ready", "status": "True"}]},
        });
        for (path, expected) in [
            (".spec.a", json!(1)),
            (".spec.list[*].n", json!("x")),
            (".spec.list[1].n", json!("y")),
            (".spec.list[-1].n", json!("y")),
            (".spec.list[1:].n", json!("y")),
            (".spec.m.k\\.l", json!("dotted")),
            (".spec.m['k.l']", json!("dotted")),
            (".spec.m['k\\.l']", json!("dotted")),
            (".status.conds[?(@.type==\"Ready\")].status", json!("True")),
            (".spec.list[?(@.v > 1)].n", json!("y")),
            (".spec.list[?(@.n != 'x')].v", json!(2)),
            ("..type", json!("Other")),
        ] {
            assert_eq!(
                JsonPath::parse(path).unwrap().first(object.as_object().unwrap()),
                Some(&expected),
                "{path}"
            );
        }
        for path in [".spec.z", ".spec.a.b", ".spec.list[9]", ".spec.list[?(@.v > 7)]", ".spec.list[0:0]"] {
            assert_eq!(JsonPath::parse(path).unwrap().first(object.as_object().unwrap()), None, "{path}");
        }
        for path in ["spec", ".spec[", ".spec[x]", ".a..b..c", ".a[?(b)]", &".a".repeat(100)] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
