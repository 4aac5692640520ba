//! Calls an admission webhook: one POST over HTTPS, in time, never repeated.
//!
//! DIVERGES: redirects are followed within the same server only (307 and 308, at most 10 requests). Answers are bounded. A
//! service without a cluster IP is not called.

use std::error::Error;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kinds::Map;
use kinds::resources::core::services::SERVICES;
use pki::tls::{self, ClientConfig as TlsConfig};
use policy::objects::decode::Text;
use portcullis_apimachinery::duration;
use portcullis_client::connect::describe;
use portcullis_client::refusal::Refusal;
use portcullis_store::Store as _;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::http::redirect;
use crate::registry::backend::Backend;
use crate::registry::storage;

/// The largest answer. In bytes.
const ANSWER_BYTES: usize = 4 << 20;
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(90);
/// The interval of pings on an active connection, and how long a response to a ping may take.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);
/// The most characters of what a webhook says about an error.
const TOLD: usize = 1024;
/// The port of a service, unless the configuration names another.
const PORT: u16 = 443;

/// How a webhook is reached.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ClientConfig<'a> {
    pub(super) url: Option<Text<'a>>,
    pub(super) service: Option<ServiceReference<'a>>,
    /// The authorities of its certificate: PEM in base64.
    pub(super) ca_bundle: Text<'a>,
}

/// The service of a webhook.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ServiceReference<'a> {
    pub(super) name: Text<'a>,
    pub(super) namespace: Text<'a>,
    pub(super) path: Text<'a>,
    pub(super) port: Option<u16>,
}

/// The body of a call: the beginning is of one webhook, the rest is shared by all.
#[derive(Clone)]
pub(super) struct Body {
    pub(super) head: Bytes,
    pub(super) rest: Bytes,
}

/// Calls one webhook, over connections that are kept.
pub(super) struct Caller {
    client: Client<HttpsConnector<HttpConnector>, Full<Chain<Bytes, Bytes>>>,
    place: Place,
    timeout: Duration,
}

/// Where a webhook is.
enum Place {
    Url(Uri),
    Service(Service),
}

/// A service of the cluster.
struct Service {
    namespace: String,
    name: String,
    port: u16,
    path: String,
}

impl Service {
    /// The name in its certificate.
    fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// The address of a call.
struct Address {
    /// What is connected to.
    uri: Uri,
    /// What the server is called in the request, if that differs.
    host: Option<HeaderValue>,
    /// The URL in messages.
    shown: String,
}

impl Caller {
    /// # Errors
    /// The configuration names no server that can be called.
    pub(super) fn new(config: &ClientConfig<'_>, timeout: Duration) -> Result<Self, String> {
        let place = match (&config.url, &config.service) {
            (Some(url), None) => Place::Url(url_of(url)?),
            (None, Some(service)) => Place::Service(service_of(service)),
            _ => return Err("clientConfig has not exactly one of url and service".to_owned()),
        };
        let builder = HttpsConnectorBuilder::new().with_tls_config(trusting(&config.ca_bundle)?).https_only();
        let builder = match &place {
            Place::Url(_) => builder,
            Place::Service(service) => {
                let host = service.host();
                let name = host.clone().try_into().map_err(|error| format!("service {host}: {error}"))?;
                builder.with_server_name_resolver(FixedServerNameResolver::new(name))
            }
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PONG)
            .build(builder.enable_all_versions().build());
        Ok(Self { client, place, timeout })
    }

    /// Sends a review, and returns the answer.
    ///
    /// # Errors
    /// There is no answer in time, or it is none: what happened, for the message to the client.
    pub(super) async fn post(&self, backend: &Backend, body: Body) -> Result<Bytes, String> {
        let address = self.address(backend).await?;
        let shown = format!("Post {:?}", address.shown);
        match timeout(self.timeout, self.exchange(address, body)).await {
            Ok(answered) => answered.map_err(|error| match error {
                Failure::Transport(why) => format!("{shown}: {why}"),
                Failure::Answer(why) => why,
            }),
            Err(_) => Err(format!("{shown}: context deadline exceeded")),
        }
    }

    async fn address(&self, backend: &Backend) -> Result<Address, String> {
        let query = format!("timeout={}", duration::to_text(self.timeout));
        match &self.place {
            Place::Url(url) => {
                let path = if url.path().is_empty() { "/" } else { url.path() };
                let uri = with_path(url, &format!("{path}?{query}"))?;
                Ok(Address { shown: uri.to_string(), uri, host: None })
            }
            Place::Service(service) => {
                let Service { namespace, name, port, path } = service;
                let key = storage::key(&SERVICES, namespace, name);
                let found = backend.get(&key).await.map_err(|error| error.to_string())?;
                let found = found.ok_or_else(|| format!("service {namespace}/{name} not found"))?;
                let found = storage::decode(&found.value).map_err(|status| status.message().to_owned())?;
                let ip = cluster_ip(&found, *port)
                    .map_err(|why| format!("service {namespace}/{name} cannot be called: {why}"))?;
                let authority = match ip {
                    IpAddr::V4(ip) => format!("{ip}:{port}"),
                    IpAddr::V6(ip) => format!("[{ip}]:{port}"),
                };
                let host = format!("{}:{port}", service.host());
                let target = format!("{path}?{query}");
                let uri: Uri = format!("https://{authority}{target}")
                    .parse()
                    .map_err(|error| format!("path {path:?}: {error}"))?;
                let header = HeaderValue::from_str(&host).map_err(|error| format!("{host:?}: {error}"))?;
                Ok(Address { uri, host: Some(header), shown: format!("https://{host}{target}") })
            }
        }
    }

    /// Sends the review, and again wherever the same server redirects it.
    async fn exchange(&self, address: Address, body: Body) -> Result<Bytes, Failure> {
        let mut uri = address.uri;
        for _ in 0..redirect::MOST_REQUESTS {
            let answer = self.send(&uri, address.host.as_ref(), body.clone()).await?;
            match redirect::of(&uri, answer.status(), answer.headers()) {
                None => return understand(answer).await,
                Some(to) => uri = to.map_err(Failure::Answer)?,
            }
        }
        Err(Failure::Answer(format!("stopped after {} redirects", redirect::MOST_REQUESTS)))
    }

    async fn send(
        &self,
        uri: &Uri,
        host: Option<&HeaderValue>,
        body: Body,
    ) -> Result<Response<Incoming>, Failure> {
        static AGENT: &str = concat!("portcullis/", env!("CARGO_PKG_VERSION"));
        let mut request = Request::new(Full::new(body.head.chain(body.rest)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(host) = host {
            headers.insert(HOST, host.clone());
        }
        self.client.request(request).await.map_err(|error| transport(&error))
    }
}

/// Why there is no answer.
enum Failure {
    /// The server was not reached, or the connection ended.
    Transport(String),
    /// The server answered something else.
    Answer(String),
}

fn transport(error: &(dyn Error + 'static)) -> Failure {
    Failure::Transport(describe(error))
}

async fn understand(answer: Response<Incoming>) -> Result<Bytes, Failure> {
    let (head, incoming) = answer.into_parts();
    let body = match Limited::new(incoming, ANSWER_BYTES).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(Failure::Answer(format!("the answer is larger than {ANSWER_BYTES} bytes")));
        }
        Err(error) => return Err(transport(&*error)),
    };
    let code = head.status.as_u16();
    if !(200..=206).contains(&code) {
        let message = Refusal::read(head.status, &body).message;
        let message: String = message.chars().take(TOLD).collect();
        return Err(Failure::Answer(format!("the webhook answered {code}: {message}")));
    }
    if body.is_empty() {
        return Err(Failure::Answer(format!("the webhook answered {code} with nothing")));
    }
    Ok(body)
}

fn with_path(uri: &Uri, path: &str) -> Result<Uri, String> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.parse().map_err(|error| format!("path {path:?}: {error}"))?);
    Uri::from_parts(parts).map_err(|error| format!("path {path:?}: {error}"))
}

fn url_of(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("url {text:?}: {error}"))?;
    let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    let is_plain = uri.query().is_none() && !text.contains('#') && !has_user;
    match uri.scheme_str() == Some("https") && uri.host().is_some() && is_plain {
        true => Ok(uri),
        false => Err(format!("url {text:?}: write https://HOST[:PORT]/PATH")),
    }
}

fn service_of(service: &ServiceReference<'_>) -> Service {
    Service {
        namespace: service.namespace.to_string(),
        name: service.name.to_string(),
        port: service.port.unwrap_or(PORT),
        path: if service.path.is_empty() { "/".to_owned() } else { service.path.to_string() },
    }
}

/// The authorities of a `caBundle`, or without one those of the system.
fn trusting(bundle: &str) -> Result<TlsConfig, String> {
    static SYSTEM: LazyLock<Option<Vec<u8>>> =
        LazyLock::new(|| tls::system_bundles().iter().find_map(|path| std::fs::read(path).ok()));
    let client = |pem: &[u8]| tls::client(pem, None).map_err(|error| format!("caBundle: {error}"));
    match (bundle, &*SYSTEM) {
        ("", Some(system)) => client(system),
        ("", None) => Err("no caBundle, and this system has no bundle of trusted authorities".to_owned()),
        (bundle, _) => client(&STANDARD.decode(bundle).map_err(|error| format!("caBundle: {error}"))?),
    }
}

/// The address of a service that has this port.
fn cluster_ip(service: &Map, port: u16) -> Result<IpAddr, String> {
    let spec = service.get("spec").and_then(Value::as_object);
    let member = |name: &str| spec.and_then(|spec| spec.get(name));
    let ports = member("ports").and_then(Value::as_array).into_iter().flatten();
    let mut ports = ports.filter_map(|entry| entry.get("port").and_then(Value::as_u64));
    if !ports.any(|found| found == u64::from(port)) {
        return Err(format!("it has no port {port}"));
    }
    if member("type").and_then(Value::as_str) == Some("ExternalName") {
        return Err("it is of type ExternalName: use a url".to_owned());
    }
    let ip = member("clusterIP").and_then(Value::as_str).unwrap_or_default();
    ip.parse().map_err(|_| format!("it has no cluster IP, but {ip:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_called_at_its_address_and_a_port_that_it_has() {
        let service = |spec: Value| serde_json::json!({ "spec": spec }).as_object().unwrap().clone();
        let good = service(serde_json::json!({"clusterIP": "10.0.0.7", "ports": [{"port": 443}]}));
        assert_eq!(cluster_ip(&good, 443), Ok("10.0.0.7".parse().unwrap()));
        assert!(cluster_ip(&good, 8443).is_err());
        for spec in [
            serde_json::json!({"clusterIP": "None", "ports": [{"port": 443}]}),
            serde_json::json!({"type": "ExternalName", "clusterIP": "10.0.0.7", "ports": [{"port": 443}]}),
            serde_json::json!({}),
        ] {
            assert!(cluster_ip(&service(spec.clone()), 443).is_err(), "{spec}");
        }
    }
}
