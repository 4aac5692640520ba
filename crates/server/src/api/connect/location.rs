//! Parts of requests that say where something is: `scheme:name:port`, and the path behind `/proxy`.

use http::request::Parts;
use portcullis_apimachinery::percent;

use crate::registry::target::Target;

/// `name`, `name:port` or `scheme:name:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) is_https: bool,
    pub(super) name: &'a str,
    /// A number or a name; empty for none.
    pub(super) port: &'a str,
}

impl<'a> Place<'a> {
    /// Splits the name of an object in the path of a proxy; none if it is none of the three forms.
    pub(super) fn of(id: &'a str) -> Option<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        let is_https = match scheme {
            "" | "http" => false,
            "https" => true,
            _ => return None,
        };
        (!name.is_empty()).then_some(Self { is_https, name, port })
    }

    /// The port, if it is a number.
    pub(super) fn number(&self) -> Option<u16> {
        port(self.port)
    }
}

/// A port in digits.
pub(super) fn port(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten().filter(|port| *port != 0)
}

/// The part of a request target after `/proxy`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// The path before, as it was sent.
    pub(super) prefix: String,
    /// The path and query to pass on, as they were sent; the path may be empty.
    pub(super) path_and_query: String,
}

/// Returns the part of a request target after `/proxy`; none if the path before it is ambiguous.
pub(super) fn rest(head: &Parts, target: &Target<'_>) -> Option<Rest> {
    let plural = target.resource.plural;
    let expected = match target.namespace {
        "" => format!("/api/{}/{plural}/{}/proxy", target.served.version, target.name),
        namespace => {
            format!("/api/{}/namespaces/{namespace}/{plural}/{}/proxy", target.served.version, target.name)
        }
    };
    let path = head.uri.path();
    let slashes = expected.matches('/').count();
    let end = path.match_indices('/').nth(slashes).map_or(path.len(), |(at, _)| at);
    let prefix = path.get(..end)?;
    if *percent::decode(prefix).ok()? != *expected.as_bytes() {
        return None;
    }
    let mut path_and_query = path.get(end..)?.to_owned();
    if let Some(query) = head.uri.query() {
        path_and_query.push('?');
        path_and_query.push_str(query);
    }
    Some(Rest { prefix: prefix.to_owned(), path_and_query })
}

#[cfg(test)]
mod tests {
    use http::Request;
    use kinds::resources::core::nodes::NODES;

    use super::*;

    #[test]
    fn names_have_three_forms() {
        let of = |id| Place::of(id).map(|place| (place.is_https, place.name, place.port));
        assert_eq!(of("a"), Some((false, "a", "")));
        assert_eq!(of("a:80"), Some((false, "a", "80")));
        assert_eq!(of("https:a:b"), Some((true, "a", "b")));
        assert_eq!(of("http:a:"), Some((false, "a", "")));
        assert_eq!(of(":a:80"), Some((false, "a", "80")));
        for wrong in ["", ":80", "ftp:a:80", "a:b:c:d", "https::80"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        for (text, number) in [("80", Some(80)), ("0", None), ("65536", None), ("+80", None), ("web", None)] {
            assert_eq!(port(text), number, "{text}");
        }
    }

    #[test]
    fn what_follows_a_proxy_is_passed_on_as_it_was_sent() {
        let target =
            Target { resource: &NODES, served: &NODES, subresource: None, namespace: "", name: "https:n:1" };
        let of = |uri: &str| {
            let (head, ()) = Request::get(uri).body(()).unwrap().into_parts();
            rest(&head, &target).map(|rest| rest.path_and_query)
        };
        for (sent, expected) in [
            ("/api/v1/nodes/https:n:1/proxy", Some("")),
            ("/api/v1/nodes/https:n:1/proxy/", Some("/")),
            ("/api/v1/nodes/https:n:1/proxy?a=b", Some("?a=b")),
            ("/api/v1/nodes/https%3an%3A1/proxy/a%2Fb/../c?d=%20", Some("/a%2Fb/../c?d=%20")),
            ("/api/v1/nodes/https:n:1/prox%79//a", Some("//a")),
            ("/api/v1%2Fnodes/https:n:1/proxy/a", None),
            ("/api/v1/nodes/https:n:1%2Fproxy/a", None),
            ("/api/v1/nodes/other/proxy/a", None),
        ] {
            assert_eq!(of(sent).as_deref(), expected, "{sent}");
        }
    }
}
