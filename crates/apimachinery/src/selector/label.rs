//! Label selectors: the text form (AC-45, AP-73) and the structured form (WH-17, WH-77).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use super::{LabelOperator, LabelRequirement, SelectorError, SelectorRequirement};
use crate::names::{label_key_errors, label_value_errors};

/// Parses a label selector (AC-45, AP-73). The requirements are sorted by key.
///
/// DIVERGES: a NUL byte makes the selector invalid. Kubernetes ends the text there and drops the rest, so authorizers
/// see another selector than the one that was sent.
///
/// # Errors
/// The first syntax error or invalid key or value.
pub fn parse_label_selector(selector: &str) -> Result<Vec<LabelRequirement>, SelectorError> {
    let mut parser = Parser { tokens: Tokens { rest: selector }, ahead: None };
    let mut requirements = Vec::new();
    if parser.peek() == Token::End {
        return Ok(requirements);
    }
    loop {
        requirements.push(parser.requirement()?);
        match parser.next() {
            Token::End => break,
            Token::Symbol(",") => {}
            found => return Err(unexpected(found, "',' or 'end of string'")),
        }
    }
    requirements.sort_by(|a: &LabelRequirement, b| a.key.cmp(&b.key));
    Ok(requirements)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// One of `= == != ! ( ) , < >`.
    Symbol(&'a str),
    /// Any other word, including `in` and `notin`, which are operators only after a key.
    Word(&'a str),
    End,
}

fn unexpected(found: Token<'_>, expected: &'static str) -> SelectorError {
    let found = match found {
        Token::Symbol(text) | Token::Word(text) => text,
        Token::End => "",
    };
    SelectorError::Unexpected { found: found.to_owned(), expected }
}

struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.rest = self.rest.trim_start_matches(is_blank);
        let first = self.rest.chars().next()?;
        let length = match first {
            _ if self.rest.starts_with("==") || self.rest.starts_with("!=") => 2,
            _ if is_special(first) => 1,
            _ => self.rest.find(|c| is_special(c) || is_blank(c)).unwrap_or(self.rest.len()),
        };
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(if is_special(first) { Token::Symbol(text) } else { Token::Word(text) })
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    ahead: Option<Token<'a>>,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Token<'a> {
        self.ahead.take().or_else(|| self.tokens.next()).unwrap_or(Token::End)
    }

    fn peek(&mut self) -> Token<'a> {
        let token = self.next();
        self.ahead = Some(token);
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let (absent, key) = match self.next() {
            Token::Word(key) => (false, key),
            Token::Symbol("!") => match self.next() {
                Token::Word(key) => (true, key),
                found => return Err(unexpected(found, "identifier")),
            },
            found => return Err(unexpected(found, "!, identifier, or 'end of string'")),
        };
        if absent {
            return LabelRequirement::checked(key, LabelOperator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return LabelRequirement::checked(key, LabelOperator::Exists, Vec::new());
        }
        let operator = match self.next() {
            Token::Symbol("=" | "==") => LabelOperator::Equals,
            Token::Symbol("!=") => LabelOperator::NotEquals,
            Token::Symbol("<") => LabelOperator::LessThan,
            Token::Symbol(">") => LabelOperator::GreaterThan,
            Token::Word("in") => LabelOperator::In,
            Token::Word("notin") => LabelOperator::NotIn,
            found => return Err(unexpected(found, "in, notin, =, ==, !=, <, >")),
        };
        let values = match operator {
            LabelOperator::In | LabelOperator::NotIn => self.values()?,
            _ => vec![self.exact_value()?.to_owned()],
        };
        LabelRequirement::checked(key, operator, values)
    }

    /// The value after `=`, which may be empty.
    fn exact_value(&mut self) -> Result<&'a str, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok("");
        }
        match self.next() {
            Token::Word(value) => Ok(value),
            found => Err(unexpected(found, "identifier")),
        }
    }

    /// The values in parentheses. Between two commas, or between a comma and a parenthesis, there is an empty value.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.next() {
            Token::Symbol("(") => {}
            found => return Err(unexpected(found, "'('")),
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Token::Word(value) => {
                    self.next();
                    value
                }
                _ => "",
            };
            values.insert(value.to_owned());
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values.into_iter().collect()),
                found => return Err(unexpected(found, "',' or ')'")),
            }
        }
    }
}

impl LabelRequirement {
    /// Creates a requirement with a valid label key and valid values (AP-73).
    fn checked(key: &str, operator: LabelOperator, values: Vec<String>) -> Result<Self, SelectorError> {
        let detail = label_key_errors(key);
        if !detail.is_empty() {
            return Err(SelectorError::InvalidKey { key: key.to_owned(), detail: detail.join("; ") });
        }
        for value in &values {
            let mut detail = label_value_errors(value);
            let integer = matches!(operator, LabelOperator::GreaterThan | LabelOperator::LessThan);
            if integer && value.parse::<i64>().is_err() {
                detail.push(Cow::Borrowed("for 'Gt', 'Lt' operators, the value must be an integer"));
            }
            if !detail.is_empty() {
                return Err(SelectorError::InvalidValue { value: value.clone(), detail: detail.join("; ") });
            }
        }
        Ok(Self { key: key.to_owned(), operator, values })
    }

    /// Converts one structured requirement (WH-77).
    ///
    /// # Errors
    /// It has an unknown operator, the wrong number of values, or an invalid key or value.
    pub fn from_structured(requirement: &SelectorRequirement) -> Result<Self, SelectorError> {
        let (operator, wants_values) = match requirement.operator.as_str() {
            "In" => (LabelOperator::In, true),
            "NotIn" => (LabelOperator::NotIn, true),
            "Exists" => (LabelOperator::Exists, false),
            "DoesNotExist" => (LabelOperator::DoesNotExist, false),
            other => return Err(SelectorError::UnsupportedOperator(other.to_owned())),
        };
        if requirement.values.is_empty() == wants_values {
            let count = requirement.values.len();
            return Err(SelectorError::ValueCount { operator: requirement.operator.clone(), count });
        }
        Self::checked(&requirement.key, operator, requirement.values.clone())
    }

    /// The structured form that is sent to webhooks; `None` for `<` and `>`, which it cannot express (WH-17).
    pub fn to_structured(&self) -> Option<SelectorRequirement> {
        let operator = match self.operator {
            LabelOperator::Equals | LabelOperator::In => "In",
            LabelOperator::NotEquals | LabelOperator::NotIn => "NotIn",
            LabelOperator::Exists => "Exists",
            LabelOperator::DoesNotExist => "DoesNotExist",
            LabelOperator::GreaterThan | LabelOperator::LessThan => return None,
        };
        let values = self.values.clone();
        Some(SelectorRequirement { key: self.key.clone(), operator: operator.to_owned(), values })
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, values, .. } = self;
        let values = values.join(",");
        match self.operator {
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::Equals => write!(f, "{key}={values}"),
            LabelOperator::Exists => f.write_str(key),
            LabelOperator::GreaterThan => write!(f, "{key}>{values}"),
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::LessThan => write!(f, "{key}<{values}"),
            LabelOperator::NotEquals => write!(f, "{key}!={values}"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn printed(selector: &str) -> String {
        let requirements = parse_label_selector(selector).unwrap_or_else(|e| panic!("{selector}: {e}"));
        requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn ac_45_every_form_is_read_and_sorted_by_key() {
        for (selector, expected) in [
            ("", ""),
            ("  ", ""),
            ("k", "k"),
            ("!k", "!k"),
            ("! k", "!k"),
            ("k=v", "k=v"),
            ("k==v", "k=v"),
            (" k != v ", "k!=v"),
            ("k in (b,a,b)", "k in (a,b)"),
            ("k notin(a)", "k notin (a)"),
            ("k<1", "k<1"),
            ("k>1", "k>1"),
            ("z,a=1", "a=1,z"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("notin", "notin"),
            ("a=,b", "a=,b"),
            ("a=in", "a=in"),
            ("example.com/a=b", "example.com/a=b"),
            ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
            ("k in (,a)", "k in (,a)"),
            ("k in (a,)", "k in (,a)"),
            ("k in (,)", "k in ()"),
        ] {
            assert_eq!(printed(selector), expected, "{selector}");
        }
    }

    #[test]
    fn ap_73_what_is_refused() {
        for selector in [
            "app===x",
            "app in x",
            "=x",
            "a b",
            "app=x,",
            ",a",
            "a,,b",
            "app=bad value",
            "app>=x",
            "tier>x",
            "tier>",
            "tier<-1",
            "app within (x)",
            "!",
            "!a=b",
            "!!a",
            "a in (b",
            "a in (b c)",
            "a in b)",
            "a in ((b)",
            "a in (b))",
            "a in (=)",
            "a)",
            "(a)",
            "a=b\0",
            "\0",
            "-a",
            "a/b/c=d",
            "é",
        ] {
            assert!(parse_label_selector(selector).is_err(), "{selector:?}");
        }
        assert!(parse_label_selector(&format!("a={}", "x".repeat(64))).is_err());
        assert!(parse_label_selector("a>9223372036854775808").is_err());
    }

    #[test]
    fn wh_77_structured_requirements_are_checked_one_by_one() {
        let read = |key: &str, operator: &str, values: &[&str]| {
            LabelRequirement::from_structured(&SelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: values.iter().map(|&v| v.to_owned()).collect(),
            })
        };
        assert_eq!(read("k", "In", &["b", "a"]).unwrap().values, ["b", "a"]);
        assert_eq!(read("k", "DoesNotExist", &[]).unwrap().to_string(), "!k");
        assert!(read("k", "In", &[]).is_err());
        assert!(read("k", "Exists", &["a"]).is_err());
        assert!(read("k", "Gt", &["1"]).is_err());
        assert!(read("a b", "Exists", &[]).is_err());
        assert!(read("k", "NotIn", &["a b"]).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(selector in ".*") {
            let _ = parse_label_selector(&selector);
        }

        #[test]
        fn what_was_read_prints_as_text_that_reads_the_same(
            selector in "((!)?(in|notin|a|b/c)(=|!=|==|<|>| in | notin )?(\\()?[a1,]{0,4}(\\))?,?){0,3}"
        ) {
            let Ok(first) = parse_label_selector(&selector) else { return Ok(()) };
            let printed = first.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(parse_label_selector(&printed).unwrap(), first);
        }
    }
}
