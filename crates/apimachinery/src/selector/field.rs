//! Field selectors: the text form (AC-44, NA-20) and the structured form (NA-22, WH-16, WH-77).

use std::fmt;

use super::{FieldOperator, FieldRequirement, SelectorError, SelectorRequirement};

/// Parses a field selector (AC-44, NA-20). The requirements are in the order of the sorted terms, which determines
/// which of two `metadata.name` terms names the object (AC-33).
///
/// # Errors
/// One bad term makes the whole selector invalid (NA-21).
pub fn parse_field_selector(selector: &str) -> Result<Vec<FieldRequirement>, SelectorError> {
    let mut terms: Vec<&str> = terms(selector).filter(|term| !term.is_empty()).collect();
    terms.sort_unstable();
    terms.into_iter().map(|term| parse_term(selector, term)).collect()
}

/// Splits at every comma that is not escaped by a backslash.
fn terms(selector: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    selector.split(move |c| {
        if escaped {
            escaped = false;
            return false;
        }
        escaped = c == '\\';
        c == ','
    })
}

/// The leftmost operator is used; at the same position `!=` and `==` take precedence over `=`.
fn parse_term(selector: &str, term: &str) -> Result<FieldRequirement, SelectorError> {
    let no_operator = || SelectorError::NoOperator { selector: selector.to_owned(), term: term.to_owned() };
    let (before, value) = term.split_once('=').ok_or_else(no_operator)?;
    let (field, operator, value) = match before.strip_suffix('!') {
        Some(field) => (field, FieldOperator::NotEquals, value),
        None => (before, FieldOperator::Equals, value.strip_prefix('=').unwrap_or(value)),
    };
    Ok(FieldRequirement { field: field.to_owned(), operator, value: unescape(value)? })
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut unescaped = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => unescaped.push(escaped),
                Some(other) => return Err(SelectorError::InvalidEscape(format!("\\{other}"))),
                None => return Err(SelectorError::InvalidEscape("\\".to_owned())),
            },
            ',' | '=' => return Err(SelectorError::Unescaped(c)),
            _ => unescaped.push(c),
        }
    }
    Ok(unescaped)
}

impl FieldRequirement {
    /// Converts one structured requirement (NA-22, WH-77).
    ///
    /// # Errors
    /// It has several values or none, or an operator that field selectors do not support.
    pub fn from_structured(requirement: &SelectorRequirement) -> Result<Self, SelectorError> {
        if requirement.values.len() > 1 {
            return Err(SelectorError::MultipleValues);
        }
        let operator = match requirement.operator.as_str() {
            "In" => FieldOperator::Equals,
            "NotIn" => FieldOperator::NotEquals,
            other => return Err(SelectorError::UnsupportedOperator(other.to_owned())),
        };
        let Some(value) = requirement.values.first() else {
            return Err(SelectorError::ValueCount { operator: requirement.operator.clone(), count: 0 });
        };
        Ok(Self { field: requirement.key.clone(), operator, value: value.clone() })
    }

    /// The structured form that is sent to webhooks (WH-16).
    pub fn to_structured(&self) -> SelectorRequirement {
        let operator = match self.operator {
            FieldOperator::Equals => "In",
            FieldOperator::NotEquals => "NotIn",
        };
        SelectorRequirement {
            key: self.field.clone(),
            operator: operator.to_owned(),
            values: vec![self.value.clone()],
        }
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        f.write_str(match self.operator {
            FieldOperator::Equals => "=",
            FieldOperator::NotEquals => "!=",
        })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(selector: &str) -> Vec<(String, &'static str, String)> {
        let operator = |o| if o == FieldOperator::Equals { "=" } else { "!=" };
        let requirements = parse_field_selector(selector).unwrap();
        requirements.into_iter().map(|r| (r.field, operator(r.operator), r.value)).collect()
    }

    fn one(field: &str, operator: &'static str, value: &str) -> Vec<(String, &'static str, String)> {
        vec![(field.to_owned(), operator, value.to_owned())]
    }

    #[test]
    fn ac_44_the_operator_is_the_leftmost_and_the_longest_there() {
        assert_eq!(pairs("spec.nodeName=n0"), one("spec.nodeName", "=", "n0"));
        assert_eq!(pairs("spec.nodeName==n0"), one("spec.nodeName", "=", "n0"));
        assert_eq!(pairs("spec.nodeName!=n0"), one("spec.nodeName", "!=", "n0"));
        assert_eq!(pairs("a="), one("a", "=", ""));
        assert_eq!(pairs("=x"), one("", "=", "x"));
        assert_eq!(pairs("!=x"), one("", "!=", "x"));
        assert_eq!(pairs("a=b!"), one("a", "=", "b!"));
    }

    #[test]
    fn ac_44_values_are_unescaped_and_fields_are_not() {
        assert_eq!(pairs(r"a=b\,c"), one("a", "=", "b,c"));
        assert_eq!(pairs(r"a=b\=c"), one("a", "=", "b=c"));
        assert_eq!(pairs(r"a=b\\"), one("a", "=", r"b\"));
        assert_eq!(pairs(r"a\=b"), one(r"a\", "=", "b"));
        assert_eq!(pairs(r"a\,b=c"), one(r"a\,b", "=", "c"));
        // NA-20: no white space is trimmed.
        assert_eq!(pairs("spec.nodeName =n0"), one("spec.nodeName ", "=", "n0"));
    }

    #[test]
    fn ac_44_one_bad_term_spoils_the_whole_selector() {
        for selector in ["a", "a=b,c", r"a=b\c", r"a=b\", "a=b=c", "a===b", "a!==b", "a>b", r"a\,b"] {
            assert!(parse_field_selector(selector).is_err(), "{selector}");
        }
        let error = parse_field_selector("a=b,foo").unwrap_err().to_string();
        assert_eq!(error, "invalid selector: 'a=b,foo'; can't understand 'foo'");
    }

    #[test]
    fn ac_33_terms_are_sorted_before_they_are_read() {
        let names = |s| pairs(s).into_iter().map(|(_, _, v)| v).collect::<Vec<_>>();
        assert_eq!(names("metadata.name=b,metadata.name=a"), ["a", "b"]);
        assert_eq!(names("metadata.name==z,metadata.name=a"), ["z", "a"]);
        assert_eq!(names("metadata.name=b,,metadata.name=a,"), ["a", "b"]);
        assert!(pairs("").is_empty());
        assert!(pairs(",,").is_empty());
    }

    #[test]
    fn na_22_structured_requirements_need_one_value_and_a_known_operator() {
        let read = |operator: &str, values: &[&str]| {
            FieldRequirement::from_structured(&SelectorRequirement {
                key: "k".to_owned(),
                operator: operator.to_owned(),
                values: values.iter().map(|&v| v.to_owned()).collect(),
            })
        };
        assert_eq!(read("In", &["v"]).unwrap().to_string(), "k=v");
        assert_eq!(read("NotIn", &[""]).unwrap().to_string(), "k!=");
        assert_eq!(read("In", &["a", "b"]), Err(SelectorError::MultipleValues));
        assert!(read("In", &[]).is_err());
        for operator in ["Exists", "DoesNotExist", "in", "Gt", ""] {
            assert!(read(operator, &[]).is_err(), "{operator}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(selector in ".*") {
            let _ = parse_field_selector(&selector);
        }

        #[test]
        fn what_was_read_prints_as_text_that_reads_the_same(selector in r"[a-c.=!,\\ ]{0,24}") {
            let Ok(mut first) = parse_field_selector(&selector) else { return Ok(()) };
            let printed = first.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let mut second = parse_field_selector(&printed).unwrap();
            first.sort();
            second.sort();
            prop_assert_eq!(first, second);
        }

        #[test]
        fn every_value_survives_printing(field in "[a-z.]{1,8}", value in ".{0,16}", equals: bool) {
            let operator = if equals { FieldOperator::Equals } else { FieldOperator::NotEquals };
            let requirement = FieldRequirement { field, operator, value };
            prop_assert_eq!(parse_field_selector(&requirement.to_string()).unwrap(), vec![requirement.clone()]);
            prop_assert_eq!(FieldRequirement::from_structured(&requirement.to_structured()).unwrap(), requirement);
        }
    }
}
