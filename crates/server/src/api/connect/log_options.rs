//! The options of a log (PodLogOptions).

use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::percent::encode_in_query;
use portcullis_apimachinery::quote::quoted;
use portcullis_apimachinery::time::Instant;

use crate::http::query::Query;
use crate::http::status::Status;
use crate::registry::options::is_true;

/// The options of a request for a log.
#[derive(Debug, Default)]
pub(super) struct LogOptions {
    /// The container; empty for the only one.
    pub(super) container: String,
    /// Whether the kubelet's certificate is not verified.
    pub(super) skips_verification: bool,
    /// The query for the kubelet.
    pub(super) query: String,
}

/// Reads the options of a log of this pod.
///
/// # Errors
/// 400 for what cannot be read, 422 for values that make no sense.
pub(super) fn read(query: &Query, pod: &str) -> Result<LogOptions, Status> {
    let has = |name: &str| query.first(name).is_some_and(is_true);
    let number = |name: &str| query.first(name).map(integer).transpose();
    let (tail, limit, since) = (number("tailLines")?, number("limitBytes")?, number("sinceSeconds")?);
    let time = query.first("sinceTime").filter(|text| !matches!(*text, "" | "null"));
    if let Some(Err(error)) = time.map(Instant::parse) {
        return Err(Status::bad_request(error.to_string()));
    }
    let mut errors = FieldErrors::new();
    if let Some(value) = tail.filter(|value| *value < 0) {
        errors.push(FieldError::invalid("tailLines", value, "must be greater than or equal to 0"));
    }
    if let Some(value) = limit.filter(|value| *value < 1) {
        errors.push(FieldError::invalid("limitBytes", value, "must be greater than 0"));
    }
    if since.is_some() && time.is_some() {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden("", why));
    } else if let Some(value) = since.filter(|value| *value < 1) {
        errors.push(FieldError::invalid("sinceSeconds", value, "must be greater than 0"));
    }
    // The gate PodLogsQuerySplitStreams is alpha, and off.
    if query.first("stream").is_some_and(|stream| !stream.is_empty()) {
        errors.push(FieldError::forbidden("stream", "may not be specified"));
    }
    if !errors.told().0.is_empty() {
        return Err(Status::invalid_object("", "PodLogOptions", pod, errors));
    }
    let mut pairs: Vec<String> = Vec::new();
    let flag = |name: &'static str| has(name).then(|| format!("{name}=true"));
    pairs.extend(flag("follow"));
    pairs.extend(limit.map(|value| format!("limitBytes={value}")));
    pairs.extend(flag("previous"));
    pairs.extend(since.map(|value| format!("sinceSeconds={value}")));
    pairs.extend(time.map(|text| format!("sinceTime={}", encode_in_query(text))));
    pairs.extend(tail.map(|value| format!("tailLines={value}")));
    pairs.extend(flag("timestamps"));
    Ok(LogOptions {
        container: query.first("container").unwrap_or_default().to_owned(),
        skips_verification: has("insecureSkipTLSVerifyBackend"),
        query: pairs.join("&"),
    })
}

/// A number as Go reads it.
fn integer(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            NegOverflow | PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quoted(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> Result<String, (u16, String)> {
        let read = read(&Query::parse(query), "p");
        read.map(|options| options.query)
            .map_err(|status| (status.code().as_u16(), status.message().to_owned()))
    }

    #[test]
    fn options_are_passed_on_in_the_order_of_their_names() {
        assert_eq!(of("").unwrap(), "");
        let all = "timestamps=1&tailLines=5&sinceTime=2026-01-02T03:04:05%2B01:00&previous=&limitBytes=7&follow=true";
        assert_eq!(
            of(all).unwrap(),
            "follow=true&limitBytes=7&previous=true&sinceTime=2026-01-02T03%3A04%3A05%2B01%3A00&tailLines=5&timestamps=true"
        );
        assert_eq!(
            of("follow=false&previous=0&tailLines=0&sinceTime=&container=c&command=id").unwrap(),
            "tailLines=0"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (query, code, part) in [
            ("tailLines=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("limitBytes=99999999999999999999", 400, "value out of range"),
            ("sinceTime=yesterday", 400, "yesterday"),
            ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
            (
                "sinceSeconds=5&sinceTime=2026-01-02T03:04:05Z",
                422,
                "at most one of `sinceTime` or `sinceSeconds`",
            ),
            ("stream=Stdout", 422, "stream: Forbidden: may not be specified"),
        ] {
            let (found, message) = of(query).unwrap_err();
            assert!(found == code && message.contains(part), "{query}: {found} {message}");
        }
    }
}
