//! Regular expressions of schemas. They are written in the syntax of Go, and matched by an engine whose time is linear
//! in the text. What is compiled is kept while it is used often, and bounded by number and size.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::{Regex, RegexBuilder};

/// The longest pattern, in bytes. DIVERGES: Kubernetes accepts patterns of any length.
pub(crate) const MAX_PATTERN: usize = 16 << 10;
/// The largest compiled pattern, in bytes. DIVERGES: Kubernetes accepts patterns of any size.
const MAX_COMPILED: usize = 1 << 20;
/// How often a part of a pattern can be repeated, as in Go.
const MAX_REPETITIONS: u32 = 1000;
/// The longest braces that can be a repetition.
const MAX_BRACES: usize = 32;
/// The most compiled patterns that are kept.
const KEPT: usize = 256;

static COMPILED: LazyLock<Mutex<HashMap<Box<str>, Arc<Regex>>>> = LazyLock::new(Mutex::default);

/// Compiles a pattern.
///
/// # Errors
/// The pattern is not a valid regular expression, or is too large.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("longer than {MAX_PATTERN} bytes"));
    }
    let mut builder = RegexBuilder::new(&translated(pattern)?);
    builder.size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).nest_limit(100);
    builder.build().map_err(|error| error.to_string())
}

/// Whether a text matches a pattern somewhere. A pattern that cannot be compiled, which no definition has, matches nothing.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let kept = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept().get(pattern).map(Arc::clone);
    let compiled = match known {
        Some(compiled) => compiled,
        None => {
            let Ok(compiled) = compile(pattern).map(Arc::new) else { return false };
            let mut kept = kept();
            // Which one goes does not matter: more patterns than this are seldom in use at the same time.
            if kept.len() >= KEPT
                && let Some(other) = kept.keys().next().cloned()
            {
                kept.remove(&other);
            }
            kept.insert(pattern.into(), Arc::clone(&compiled));
            compiled
        }
    };
    compiled.is_match(text)
}

/// The same pattern in the syntax of the engine: classes mean characters of ASCII, brackets within classes are themselves,
/// and so are braces that are no repetition.
///
/// # Errors
/// A repetition of a repetition, or of too many.
fn translated(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    let mut class_start = false;
    let mut after_repetition = false;
    while let Some(c) = chars.next() {
        let braces = if c == '{' && !in_class { repetition(chars.clone())? } else { None };
        let repeats = !in_class && (matches!(c, '*' | '+' | '?') || braces.is_some());
        if repeats && after_repetition {
            return Err(format!("invalid nested repetition operator: {c}"));
        }
        after_repetition = repeats;
        match c {
            '*' | '+' | '?' | '{' if repeats => {
                out.push(c);
                for inner in chars.by_ref().take(braces.unwrap_or_default()) {
                    out.push(inner);
                }
                if chars.peek() == Some(&'?') {
                    chars.next();
                    out.push('?');
                }
            }
            '{' if !in_class => out.push_str("\\{"),
            '\\' => {
                let Some(next) = chars.next() else {
                    out.push('\\');
                    break;
                };
                escape(next, in_class, &mut chars, &mut out);
                class_start = false;
            }
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    chars.next();
                    out.push('^');
                }
            }
            // A bracket at the start of a class is one of its characters.
            ']' if in_class && class_start => {
                out.push_str("\\]");
                class_start = false;
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' if in_class && chars.peek() == Some(&':') => {
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
                class_start = false;
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
                class_start = false;
            }
            // Two dashes would subtract a class.
            '-' if in_class && chars.peek() == Some(&'-') => {
                out.push_str("\\-");
                class_start = false;
            }
            c => {
                out.push(c);
                class_start = false;
            }
        }
    }
    Ok(out)
}

/// The length of what follows an opening brace, if both are a repetition: `n}`, `n,}` or `n,m}`.
///
/// # Errors
/// It repeats too often, or at most fewer times than at least.
fn repetition(mut chars: std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>, String> {
    let mut inner = String::new();
    // Longer numbers are too large anyway.
    let end = chars.by_ref().take(MAX_BRACES).find(|c| {
        inner.push(*c);
        !c.is_ascii_digit() && *c != ','
    });
    let Some(counts) = inner.strip_suffix('}').filter(|_| end == Some('}')) else { return Ok(None) };
    let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
    let is_number = |text: &str| !text.is_empty() && !text.contains(',');
    if !is_number(least) || !(most.is_empty() || is_number(most)) {
        return Ok(None);
    }
    let count = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= MAX_REPETITIONS);
    let are_valid = match (count(least), count(most)) {
        (Some(_), None) => most.is_empty(),
        (Some(least), Some(most)) => least <= most,
        (None, _) => false,
    };
    if are_valid { Ok(Some(inner.len())) } else { Err(format!("invalid repeat count: {{{inner}")) }
}

/// Writes an escape, whose character this is.
fn escape(
    next: char,
    in_class: bool,
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) {
    let set = |inner: &str, out: &mut String, is_not: bool| match (in_class, is_not) {
        (true, false) => out.push_str(inner),
        (_, true) => out.push_str(&format!("[^{inner}]")),
        (false, false) => out.push_str(&format!("[{inner}]")),
    };
    match next {
        'd' => set("0-9", out, false),
        'D' => set("0-9", out, true),
        'w' => set("0-9A-Za-z_", out, false),
        'W' => set("0-9A-Za-z_", out, true),
        's' => set("\\t\\n\\x0c\\r ", out, false),
        'S' => set("\\t\\n\\x0c\\r ", out, true),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        'B' if !in_class => out.push_str("(?-u:\\B)"),
        // A literal text.
        'Q' if !in_class => {
            let rest: String = chars.clone().collect();
            let (literal, skipped) = match rest.split_once("\\E") {
                Some((literal, _)) => (literal.to_owned(), literal.chars().count() + 2),
                None => (rest.clone(), rest.chars().count()),
            };
            out.push_str(&regex::escape(&literal));
            for _ in 0..skipped {
                chars.next();
            }
        }
        c => {
            out.push('\\');
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_go() {
        for (pattern, text, expected) in [
            ("^[a-z]+-[0-9]{2}$", "abc-12", true),
            ("^[a-z]+-[0-9]{2}$", "abc-1", false),
            ("b", "abc", true),
            (r"^\d+$", "12", true),
            (r"^\d+$", "\u{0661}", false),
            (r"^[\d.]+$", "1.2", true),
            (r"^\D$", "a", true),
            (r"^[^\w]$", "é", true),
            ("^[]a]+$", "]a", true),
            ("^[[a]+$", "[a", true),
            ("^[a&&b]+$", "&a", true),
            ("^[[:alpha:]]+$", "ab", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"\bfoo\b", "a foo b", true),
            ("(?i)ABC", "abc", true),
            ("^{{.+}}$", "{{a}}", true),
            ("^a{,2}$", "a{,2}", true),
            ("^a{,2}$", "aa", false),
            ("^a{2,3}?b{1,}$", "aab", true),
        ] {
            assert_eq!(
                compile(pattern).map(|compiled| compiled.is_match(text)),
                Ok(expected),
                "{pattern} {text}"
            );
            assert_eq!(matches(pattern, text), expected);
        }
        for pattern in ["([a-z", "a**", "a{2}+", "a*??", "a{1001}", "a{2,1}", r"(?=a)", "[z-a]", r"\1"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn patterns_are_bounded() {
        assert!(compile(&"a".repeat(MAX_PATTERN + 1)).is_err());
        assert!(compile(&format!("(({}", "(".repeat(10_000))).is_err());
        assert!(compile("(((a{1000}){1000}){1000})").is_err());
        for at in 0..KEPT * 2 {
            assert!(matches(&format!("^{at}$"), &at.to_string()));
        }
        assert!(COMPILED.lock().unwrap().len() <= KEPT);
        // Of an engine that goes back, this would take years.
        assert!(!matches("^(a+)+$", &format!("{}b", "a".repeat(100_000))));
    }
}
