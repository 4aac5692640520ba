//! Query parameters (AC-19).

use portcullis_apimachinery::percent;

/// The parameters, in order. Pairs with a `;` or a malformed escape are dropped individually.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query string.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Self(
            pairs
                .filter_map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((decode(key)?, decode(value)?))
                })
                .collect(),
        )
    }

    /// Returns the values of a parameter, in order.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a parameter.
    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the values of one parameter, in order.
pub(crate) fn values(query: &str, name: &str) -> Vec<String> {
    Query::parse(query).values(name).map(str::to_owned).collect()
}

/// Returns whether the parameter exists.
pub(crate) fn has(query: &str, name: &str) -> bool {
    Query::parse(query).first(name).is_some()
}

fn decode(text: &str) -> Option<String> {
    let bytes = percent::decode_in_query(text).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_pair_is_dropped_alone_ac_19() {
        assert_eq!(values("a=1&a=%zz&a=x;y&a=b+c&a&b=2&a=%41%2f", "a"), ["1", "b c", "", "A/"]);
        assert!(has("verbose", "verbose"));
        assert!(!has("", ""));
        assert!(!has("", "verbose"));
    }
}
