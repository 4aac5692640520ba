//! Parameters of a URL's query (AC-19).

/// The values of one parameter, in order. Pairs with a `;` or a malformed escape are dropped, alone.
pub(crate) fn values(query: &str, name: &str) -> Vec<String> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        .filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(value)?))
        })
        .filter(|(key, _)| key == name)
        .map(|(_, value)| value)
        .collect()
}

/// Whether the parameter is there.
pub(crate) fn has(query: &str, name: &str) -> bool {
    !values(query, name).is_empty()
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&out).into_owned())
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
