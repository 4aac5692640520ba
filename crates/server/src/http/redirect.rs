//! Redirects of calls that the server makes: the same request is sent again, to another path of the same server. What is asked
//! must not go to a server that nobody has configured.

use http::header::LOCATION;
use http::{HeaderMap, StatusCode, Uri};

/// The most requests of one call: the first, and one for each redirect.
pub(crate) const MOST_REQUESTS: usize = 10;
/// The port of `https`.
const PORT: u16 = 443;

/// Where an answer sends the same request to; nothing if it is no such redirect.
///
/// # Errors
/// It leads to another server.
pub(crate) fn of(from: &Uri, code: StatusCode, headers: &HeaderMap) -> Option<Result<Uri, String>> {
    let is_same_request = matches!(code, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    is_same_request.then(|| {
        let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
        within(from, location.unwrap_or_default())
    })
}

/// The target of a redirect of a GET; none if the answer is no redirect. Every redirect repeats the GET as it is.
///
/// # Errors
/// It leads to another server.
pub(crate) fn of_get(from: &Uri, code: StatusCode, headers: &HeaderMap) -> Option<Result<Uri, String>> {
    let is_redirect = matches!(code.as_u16(), 301 | 302 | 303 | 307 | 308);
    is_redirect.then(|| {
        let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
        within(from, location.unwrap_or_default())
    })
}

fn within(from: &Uri, location: &str) -> Result<Uri, String> {
    let refused =
        || format!("redirected to {location:?}: redirects are followed within the same server only");
    let to: Uri = location.parse().map_err(|_| refused())?;
    let port = |uri: &Uri| uri.port_u16().unwrap_or(PORT);
    let is_same = match to.authority() {
        None => location.starts_with('/') && !location.starts_with("//"),
        Some(_) => to.scheme() == from.scheme() && to.host() == from.host() && port(&to) == port(from),
    };
    if !is_same {
        return Err(refused());
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = to.into_parts().path_and_query;
    Uri::from_parts(parts).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_with_the_server() {
        let from: Uri = "https://hook.example/admit?timeout=2s".parse().unwrap();
        for (location, to) in [
            ("/other", Some("https://hook.example/other")),
            ("https://hook.example:443/x?y", Some("https://hook.example/x?y")),
            ("https://hook.example:8443/x", None),
            ("https://other.example/x", None),
            ("//other.example/x", None),
            ("http://hook.example/x", None),
            ("", None),
            ("relative", None),
        ] {
            let found = within(&from, location).ok().map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), to, "{location}");
        }
    }

    #[test]
    fn only_redirects_of_the_same_request_are_followed() {
        let from: Uri = "https://h/x".parse().unwrap();
        let headers: HeaderMap = [(LOCATION, "/y".parse().unwrap())].into_iter().collect();
        for code in [200, 301, 302, 303, 304] {
            assert_eq!(of(&from, StatusCode::from_u16(code).unwrap(), &headers), None, "{code}");
        }
        for code in [307, 308] {
            let to = of(&from, StatusCode::from_u16(code).unwrap(), &headers);
            assert_eq!(to, Some(Ok("https://h/y".parse().unwrap())), "{code}");
        }
        assert!(matches!(of(&from, StatusCode::PERMANENT_REDIRECT, &HeaderMap::new()), Some(Err(_))));
    }
}
