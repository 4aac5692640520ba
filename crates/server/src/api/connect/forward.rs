//! Passes a request on, and the answer back.
//!
//! DIVERGES: kube-apiserver sends whoever asks to wherever a node or a pod redirects to. Here a redirect of a proxy stays with the
//! same server, and others are an error: clients follow redirects with their credentials. Links in pages are not rewritten.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use super::errand::{Errand, Kind};
use super::log_status;
use crate::api::app::App;
use crate::api::connections::Opened;
use crate::api::watch_rights::WatchRights;
use crate::authn::Peer;
use crate::http::body::Body;
use crate::http::listener::{Connection, Tunnel};
use crate::http::passed_body::{Interrupted, PassedBody};
use crate::http::status::{Answer, Status};
use crate::http::subprotocol;
use crate::proxy::addresses::AddressError;
use crate::proxy::dial::{Destination, DialError};
use crate::proxy::headers;
use crate::proxy::upgrade::{self, Reply, WEBSOCKET};

/// How long a changed connection may carry nothing: a little longer than kubelets keep one.
const IDLE: Duration = Duration::from_secs(4 * 60 * 60 + 5 * 60);
/// The most of an error of a kubelet that is read. In bytes, and as in kube-apiserver.
const ERROR_BYTES: usize = 50_000;
/// How long a kubelet may take to send it.
const ERROR_TIME: Duration = Duration::from_secs(10);
/// The user agent in requests for logs.
const AGENT: HeaderValue = HeaderValue::from_static("portcullis");
/// The subprotocols of WebSocket that all kubelets know. Others are for those that say so (KA-84).
const OLD_SUBPROTOCOLS: [&str; 4] =
    ["base64.channel.k8s.io", "channel.k8s.io", "v4.base64.channel.k8s.io", "v4.channel.k8s.io"];

/// A request that is passed on.
pub(super) struct Passing<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) connection: &'a Arc<Connection<Peer>>,
    pub(super) head: &'a Parts,
    pub(super) rights: Box<WatchRights>,
    pub(super) opened: Opened,
}

/// The answer for a pod that has no log yet, as in Kubernetes.
pub(super) fn no_content() -> Answer {
    let mut answer = Answer::default();
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// Passes a request on, and returns the answer.
///
/// # Errors
/// The request cannot be passed on, or the other server does not answer as it should.
pub(super) async fn pass(
    passing: Passing<'_>,
    errand: Errand,
    body: &mut Option<Incoming>,
) -> Result<Answer, Status> {
    match &errand.kind {
        Kind::Log { pod } => log(passing, &errand, pod).await,
        Kind::Stream { takes_all } => stream(passing, &errand, *takes_all, body).await,
        Kind::Proxy { prefix } => proxy(passing, &errand, prefix, body).await,
    }
}

async fn log(passing: Passing<'_>, errand: &Errand, pod: &str) -> Result<Answer, Status> {
    let mut headers = HeaderMap::new();
    if let Ok(host) = HeaderValue::from_str(&errand.to.authority()) {
        headers.insert(HOST, host);
    }
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(USER_AGENT, AGENT);
    let request = request(&Method::GET, &errand.path_and_query, headers, PassedBody::empty())?;
    let answer = passing.app.kubelets.send((&errand.to, passing.opened.account), request).await;
    let answer = answer.map_err(|error| {
        let url = format!("https://{}{}", errand.to.authority(), errand.path_and_query);
        failed(&error, &errand.to, |why| Status::unknown(format!("Get {url:?}: {why}")))
    })?;
    match answer.status() {
        code if code.is_success() => {
            let mut told = Response::new(passing.body(answer.into_body()));
            told.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            Ok(told)
        }
        code if code.is_redirection() => Err(Status::unknown("redirects forbidden")),
        code if code.is_informational() => {
            Err(Status::unknown(format!("the kubelet answers with status code {}", code.as_u16())))
        }
        code => {
            let reading = timeout(ERROR_TIME, Limited::new(answer.into_body(), ERROR_BYTES).collect()).await;
            // What cannot be read is not needed.
            let read = reading.ok().and_then(Result::ok).map(|read| read.to_bytes()).unwrap_or_default();
            Err(log_status::of(code, &String::from_utf8_lossy(&read), pod))
        }
    }
}

async fn stream(
    passing: Passing<'_>,
    errand: &Errand,
    takes_all: bool,
    body: &mut Option<Incoming>,
) -> Result<Answer, Status> {
    let Some(protocol) = upgrade::asked(passing.head) else {
        return Err(Status::bad_request("Upgrade request required"));
    };
    let mut headers = headers::to_server(&passing.head.headers, &errand.to.authority(), Some(protocol));
    if protocol == WEBSOCKET && !takes_all {
        // A client that offers nothing else, such as kubectl, asks again by SPDY.
        if subprotocol::keep(&mut headers, |offered| OLD_SUBPROTOCOLS.contains(&offered)) {
            let known = OLD_SUBPROTOCOLS.join(", ");
            return Err(Status::bad_request(format!(
                "unable to upgrade: the kubelet takes no subprotocol of WebSocket but {known}; use these, or SPDY/3.1"
            )));
        }
    }
    let upgrading = Upgrading { protocol, headers };
    passing
        .upgraded(errand, upgrading, body, |why| Status::unknown(format!("error dialing backend: {why}")))
        .await
}

async fn proxy(
    passing: Passing<'_>,
    errand: &Errand,
    prefix: &str,
    body: &mut Option<Incoming>,
) -> Result<Answer, Status> {
    let unreachable = |why: &str| Status::unavailable(format!("error trying to reach service: {why}"));
    let asked = upgrade::asked(passing.head);
    let headers = headers::to_server(&passing.head.headers, &errand.to.authority(), asked);
    if let Some(protocol) = asked {
        return passing.upgraded(errand, Upgrading { protocol, headers }, body, unreachable).await;
    }
    if !errand.path_and_query.starts_with('/') {
        return Ok(with_slash(prefix, &errand.path_and_query));
    }
    let Some(body) = body.take() else { return Err(Status::internal("the body was read already")) };
    let body = PassedBody::new(body, passing.app.limits.body_read);
    let request = request(&passing.head.method, &errand.path_and_query, headers, body)?;
    let answer = passing.app.kubelets.send((&errand.to, passing.opened.account), request).await;
    let answer = answer.map_err(|error| failed(&error, &errand.to, unreachable))?;
    if answer.status().is_informational() {
        return Err(unreachable(&format!("unexpected status {}", answer.status().as_u16())));
    }
    let mut answer = passing.answered(answer);
    if let Some(location) = answer.headers().get(LOCATION) {
        match within(location, &errand.to, prefix) {
            Some(location) => drop(answer.headers_mut().insert(LOCATION, location)),
            None if answer.status().is_redirection() => {
                return Err(Status::other(
                    StatusCode::BAD_GATEWAY,
                    "",
                    "the server behind the proxy redirects to another server, which is not passed on",
                    None,
                ));
            }
            None => {}
        }
    }
    Ok(answer)
}

/// The redirect of kube-apiserver to the root of the other server.
fn with_slash(prefix: &str, query: &str) -> Answer {
    let mut answer = Answer::default();
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(&format!("{prefix}/{query}")) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

/// A location of the other server as the caller reaches it; none if it is not on that server.
fn within(location: &HeaderValue, to: &Destination, prefix: &str) -> Option<HeaderValue> {
    let text = location.to_str().ok()?;
    // Browsers read a backslash as a slash.
    if text.starts_with("//") || text.contains('\\') {
        return None;
    }
    if text.starts_with('/') {
        return HeaderValue::from_str(&format!("{prefix}{text}")).ok();
    }
    // Relative to the path: without a scheme such as `data:`.
    if !text.contains(':') {
        return Some(location.clone());
    }
    let uri: Uri = text.parse().ok()?;
    let authority = uri.authority().filter(|_| uri.scheme().is_some())?;
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let port = authority.port_u16().unwrap_or(usual);
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    (host == to.host && port == to.port)
        .then(|| HeaderValue::from_str(&format!("{prefix}{path}")).ok())
        .flatten()
}

/// An upgrade that is asked for.
struct Upgrading {
    protocol: &'static str,
    /// The headers for the other server.
    headers: HeaderMap,
}

impl Passing<'_> {
    /// Passes an upgrade on. The connection becomes a tunnel if the other server agrees.
    async fn upgraded(
        self,
        errand: &Errand,
        upgrading: Upgrading,
        body: &mut Option<Incoming>,
        unreachable: impl Fn(&str) -> Status,
    ) -> Result<Answer, Status> {
        let Upgrading { protocol, headers } = upgrading;
        // One side would read what follows the headers as the start of the stream, the other as a body.
        if body.as_ref().is_some_and(|body| !body.is_end_stream()) {
            return Err(Status::bad_request("an upgrade request with a body is not supported"));
        }
        let path = match errand.path_and_query.as_str() {
            path if path.starts_with('/') => path.to_owned(),
            query => format!("/{query}"),
        };
        let request = request(&self.head.method, &path, headers, PassedBody::empty())?;
        let answer = self.app.kubelets.send((&errand.to, self.opened.account), request).await;
        let mut answer = answer.map_err(|error| failed(&error, &errand.to, unreachable))?;
        let far = match upgrade::reply(&mut answer, protocol).await {
            Reply::Switched(far) => far,
            Reply::Refused => return Ok(self.answered(answer)),
            Reply::Unexpected(status) => {
                let code = status.as_u16();
                return Err(Status::unknown(format!("invalid upgrade response: status code {code}")));
            }
        };
        let opened = self.opened;
        self.connection.tunnel_to(Tunnel {
            far: Box::new(far),
            idle: Some(IDLE),
            revoked: ended(self.app, self.rights),
            over: Box::new(|_| drop(opened)),
        });
        let mut told = Response::new(Body::default());
        *told.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *told.headers_mut() = headers::to_client(answer.headers(), Some(protocol));
        Ok(told)
    }

    /// An answer of the other server as it is passed on.
    fn answered(self, answer: Response<Incoming>) -> Answer {
        let (mut head, body) = answer.into_parts();
        head.headers = headers::to_client(&head.headers, None);
        // What other sites may do is for this server to say.
        let others: Vec<HeaderName> = head
            .headers
            .keys()
            .filter(|name| name.as_str().starts_with("access-control-"))
            .cloned()
            .collect();
        for name in others {
            head.headers.remove(name);
        }
        head.version = Version::default();
        head.extensions.clear();
        Response::from_parts(head, self.body(body))
    }

    /// A body as it is passed on: while the caller reads it, and as long as the right to it lasts.
    fn body(self, body: Incoming) -> Body {
        Body::passed_on(body, self.opened).cut_by(ended(self.app, self.rights))
    }
}

/// Completes when the right to a connection has ended, or the server stops.
fn ended(app: &Arc<App>, rights: Box<WatchRights>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut stopping = app.stopping();
    Box::pin(async move {
        tokio::select! {
            () = rights.ended() => {}
            // An error: the server is gone.
            _ = stopping.wait_for(|stop| *stop) => {}
        }
    })
}

fn request(
    method: &Method,
    path_and_query: &str,
    headers: HeaderMap,
    body: PassedBody,
) -> Result<Request<PassedBody>, Status> {
    let mut request = Request::new(body);
    *request.method_mut() = method.clone();
    *request.uri_mut() = path_and_query.parse().map_err(|error| Status::bad_request(format!("{error}")))?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// The status for a server that was not reached: the caller's fault, that of an address, or else what is usual for the request.
fn failed(error: &DialError, to: &Destination, unreachable: impl Fn(&str) -> Status) -> Status {
    match error.http().and_then(Interrupted::cause) {
        Some(Interrupted::Late) => return Status::timeout(),
        Some(interrupted) => return Status::bad_request(interrupted.to_string()),
        None => {}
    }
    let authority = to.authority();
    match error {
        DialError::Address(why @ (AddressError::NotAllowed | AddressError::None)) => {
            tracing::warn!(to = authority, %why, "nothing is sent to this address");
            Status::bad_request(why.to_string())
        }
        DialError::Tls(why) if why.contains("certificate") => unreachable(&format!(
            "{authority}: {why} (a kubelet with serverTLSBootstrap: true gets a certificate that is verified; see also \
             --kubelet-certificate-authority)"
        )),
        DialError::Tls(why) => unreachable(&format!("{authority}: {why}")),
        error => unreachable(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_on_the_same_server_or_is_not_passed_on() {
        let to = Destination { host: "192.0.2.1".to_owned(), port: 10250, tls: None };
        let of = |location: &str| {
            let found = within(&location.parse().unwrap(), &to, "/p");
            found.map(|found| found.to_str().unwrap().to_owned())
        };
        for (location, expected) in [
            ("/a?b", Some("/p/a?b")),
            ("https://192.0.2.1:10250/a?b", Some("/p/a?b")),
            ("http://192.0.2.1:10250", Some("/p/")),
            ("a/b", Some("a/b")),
            ("../b", Some("../b")),
            ("https://192.0.2.1/a", None),
            ("https://other.example/a", None),
            ("//other.example/a", None),
            ("/\\other.example/a", None),
            ("\\\\other.example/a", None),
            ("data:text/html,x", None),
            ("javascript:alert(1)", None),
        ] {
            assert_eq!(of(location).as_deref(), expected, "{location}");
        }
    }
}
