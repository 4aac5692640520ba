//! Authentication and authorization of a kubelet that checks its callers itself (KA-25 to KA-39a, KA-54 to KA-58).

use std::collections::BTreeMap;

use http::{HeaderMap, header};

/// The user of a bearer token and the grants of that user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The user's name.
    pub user: String,
    /// Verb (`*` for every one) and subresource of `nodes`, taken literally: `("get", "proxy")`.
    pub grants: Vec<(String, String)>,
}

/// How a kubelet refuses a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// 401, KA-48.
    Unauthorized,
    /// 403 with this body, KA-58.
    Forbidden(String),
}

/// The verb of a method (KA-25).
fn verb(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// The subresources of which one must be granted, in order, for a decoded path (KA-28 to KA-39a).
fn subresources(path: &str, fine_grained: bool) -> &'static [&'static str] {
    let under =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let fine: &[(&str, &'static [&'static str])] = &[
        ("/pods", &["pods", "proxy"]),
        ("/runningpods", &["pods", "proxy"]),
        ("/healthz", &["healthz", "proxy"]),
        ("/configz", &["configz", "proxy"]),
    ];
    let always: &[(&str, &'static [&'static str])] = &[
        ("/stats", &["stats"]),
        ("/metrics", &["metrics"]),
        ("/logs", &["log"]),
        ("/checkpoint", &["checkpoint"]),
        ("/statusz", &["statusz"]),
        ("/flagz", &["configz"]),
    ];
    let fine = fine.iter().filter(|_| fine_grained);
    fine.chain(always).find(|(prefix, _)| under(prefix)).map_or(&["proxy"], |(_, subresources)| subresources)
}

/// The bearer token of a request (KA-42).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = value.splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Decides on a request (KA-54).
pub(super) fn check(
    holders: &BTreeMap<String, Holder>,
    headers: &HeaderMap,
    method: &str,
    path: &str,
    fine_grained: bool,
) -> Result<(), Refused> {
    let holder = bearer(headers).and_then(|token| holders.get(token)).ok_or(Refused::Unauthorized)?;
    let (verb, tried) = (verb(method), subresources(path, fine_grained));
    let holds = |subresource: &str| {
        holder.grants.iter().any(|(v, s)| (v == "*" || (v == verb && !verb.is_empty())) && s == subresource)
    };
    if tried.iter().any(|subresource| holds(subresource)) {
        return Ok(());
    }
    let (user, tried) = (&holder.user, tried.join(" "));
    Err(Refused::Forbidden(format!(
        "Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{tried}])\n"
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::recorded;

    #[test]
    fn attributes_are_those_that_were_recorded_ka_25_to_39a() {
        for line in recorded::lines("kubelet-request-attributes.jsonl") {
            let (method, url) = (line["method"].as_str().unwrap(), line["url"].as_str().unwrap());
            let expected: Vec<&Value> = line["attributes"].as_array().unwrap().iter().collect();
            // A URL that begins with // was recorded as one with a host.
            let path = match url.strip_prefix("//") {
                Some(rest) => rest.find('/').map_or("", |at| &rest[at..]),
                None => url,
            };
            let path = super::super::mux::decoded(path.split('?').next().unwrap()).unwrap();
            assert_eq!(expected.len(), subresources(&path, true).len(), "{method} {url}");
            for (expected, subresource) in expected.iter().zip(subresources(&path, true)) {
                assert_eq!(expected["verb"], json!(verb(method)), "{method} {url}");
                assert_eq!(expected["subresource"], json!(subresource), "{method} {url}");
                assert_eq!(expected["path"], json!(path), "{method} {url}");
            }
        }
    }

    #[test]
    fn without_the_gate_proxy_stands_for_all_but_six_ka_30_to_39() {
        for (path, expected) in [
            ("/pods", "proxy"),
            ("/healthz", "proxy"),
            ("/configz", "proxy"),
            ("/flagz", "configz"),
            ("/logs/", "log"),
        ] {
            assert_eq!(subresources(path, false), [expected], "{path}");
        }
    }

    #[test]
    fn a_refusal_names_what_was_tried_ka_58() {
        let holder = Holder { user: "jane".into(), grants: vec![("get".into(), "metrics".into())] };
        let holders = BTreeMap::from([("t".to_owned(), holder)]);
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, "bEARER t".parse().unwrap())]);
        let refused = check(&holders, &headers, "GET", "/pods", true).unwrap_err();
        let body = "Forbidden (user=jane, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
        assert_eq!(refused, Refused::Forbidden(body.to_owned()));
        assert_eq!(check(&holders, &headers, "GET", "/metrics/slis", true), Ok(()));
        assert_eq!(check(&holders, &HeaderMap::new(), "GET", "/metrics", true), Err(Refused::Unauthorized));
    }
}
