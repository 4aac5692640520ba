//! The claims that every token has (RFC 7519, 4.1): whether it is valid now, and for whom.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

/// The leeway for the begin of a token (`nbf`). Its end (`exp`) has none.
const LEEWAY: i64 = 60;

/// Claims that are strings, where they are there.
const TEXTS: [&str; 3] = ["sub", "nonce", "at_hash"];
/// The names of distributed claims, each with its source (OpenID Connect Core, 5.6.2).
pub(super) const NAMES: &str = "_claim_names";
/// The sources of distributed claims.
pub(super) const SOURCES: &str = "_claim_sources";

/// Checks that a token is valid now, for one of these audiences.
///
/// # Errors
/// Why it is not.
pub(super) fn check(
    claims: &Map<String, Value>,
    audiences: &[String],
    now: SystemTime,
) -> Result<(), &'static str> {
    // `null` is like absent.
    let claim = |name: &str| claims.get(name).filter(|value| !value.is_null());
    if TEXTS.into_iter().filter_map(claim).any(|value| !value.is_string()) {
        return Err("a claim of the token is of the wrong type");
    }
    let found = match claim("aud") {
        None => Vec::new(),
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(many)) => {
            many.iter().map(Value::as_str).collect::<Option<_>>().ok_or("aud is of the wrong type")?
        }
        Some(_) => return Err("aud is of the wrong type"),
    };
    // The audiences of a configuration are few.
    if !found.iter().any(|audience| audiences.iter().any(|wanted| wanted == audience)) {
        return Err("the token is for another audience");
    }
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let ends = claim("exp").and_then(time).ok_or("exp is missing or is no time")?;
    let is_later = since.subsec_nanos() > 0;
    if seconds > ends || (seconds == ends && is_later) {
        return Err("the token is expired");
    }
    if let Some(begins) = claim("nbf") {
        let begins = time(begins).ok_or("nbf is no time")?;
        if seconds.saturating_add(LEEWAY) < begins {
            return Err("the token is not valid yet");
        }
    }
    if claims.get("iat").is_some_and(|issued| time(issued).is_none()) {
        return Err("iat is no time");
    }
    check_sources(claim(NAMES), claim(SOURCES))
}

/// Seconds since 1970, whose fraction is dropped.
fn time(value: &Value) -> Option<i64> {
    let number = match value {
        Value::Number(number) => number.clone(),
        // Kubernetes reads numbers in quotes as well.
        Value::String(text) => serde_json::from_str(text).ok()?,
        _ => return None,
    };
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let seconds = number.as_f64().filter(|seconds| *seconds >= 0.0)?;
    let whole = Duration::try_from_secs_f64(seconds).ok()?.as_secs();
    i64::try_from(whole).ok()
}

/// Every distributed claim has a source, which is an object.
fn check_sources(names: Option<&Value>, sources: Option<&Value>) -> Result<(), &'static str> {
    let is_text = |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value.is_string());
    let sources = match sources {
        None => None,
        Some(sources) => Some(sources.as_object().ok_or("_claim_sources is of the wrong type")?),
    };
    for source in sources.into_iter().flat_map(Map::values) {
        let members = source.as_object().ok_or("_claim_sources is of the wrong type")?;
        if !is_text(members.get("endpoint")) || !is_text(members.get("access_token")) {
            return Err("_claim_sources is of the wrong type");
        }
    }
    let Some(names) = names else { return Ok(()) };
    for source in names.as_object().ok_or("_claim_names is of the wrong type")?.values() {
        let source = source.as_str().ok_or("_claim_names is of the wrong type")?;
        if !sources.is_some_and(|sources| sources.contains_key(source)) {
            return Err("a distributed claim has no source");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(more: Value) -> Result<(), &'static str> {
        let mut claims = json!({"aud": "app", "exp": 1000}).as_object().unwrap().clone();
        claims.extend(more.as_object().unwrap().clone());
        check(&claims, &["app".to_owned()], SystemTime::UNIX_EPOCH + Duration::from_millis(999_500))
    }

    #[test]
    fn a_token_ends_without_and_begins_with_leeway() {
        assert_eq!(of(json!({})), Ok(()));
        for exp in [json!(998), json!(999), json!(0), json!(-5), json!(1e300), json!("x"), json!(null)] {
            assert!(of(json!({"exp": exp})).is_err(), "{exp}");
        }
        for exp in [json!(1000.5), json!("1000"), json!(1e10)] {
            assert_eq!(of(json!({"exp": exp})), Ok(()), "{exp}");
        }
        assert_eq!(of(json!({"nbf": 1059})), Ok(()));
        assert!(of(json!({"nbf": 1060})).is_err());
    }

    #[test]
    fn one_audience_must_be_wanted() {
        for aud in [json!("app"), json!(["x", "app"])] {
            assert_eq!(of(json!({"aud": aud})), Ok(()), "{aud}");
        }
        for aud in [json!("app2"), json!(""), json!(null), json!([]), json!(["app", 5]), json!(5), json!({})]
        {
            assert!(of(json!({"aud": aud})).is_err(), "{aud}");
        }
    }
}
