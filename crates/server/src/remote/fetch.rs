//! Gets documents over HTTPS, within bounds of time and size.
//!
//! DIVERGES: redirects are followed within the same server only, because only that server was named; a document has at most
//! 1 MiB; proxies of the environment are not used.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pki::tls;
use portcullis_client::connect::describe;
use tokio::time::timeout;

use crate::http::redirect;

/// The most bytes of a document.
const DOCUMENT_BYTES: usize = 1 << 20;
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(90);

/// Gets documents from servers that some authorities vouch for.
pub(crate) struct Fetcher {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    limit: Duration,
}

impl Fetcher {
    /// Trusts these authorities, in PEM, or those of the system if it is empty. A document must come within the time limit.
    ///
    /// # Errors
    /// There is no usable authority.
    pub(crate) fn new(authorities: &str, limit: Duration) -> Result<Self, String> {
        let config = match authorities {
            "" => {
                let system = tls::system_bundles().iter().find_map(|path| std::fs::read(path).ok());
                let system = system.ok_or("this system has no bundle of trusted authorities")?;
                tls::client(&system, None)
            }
            authorities => tls::client(authorities.as_bytes(), None),
        };
        let config = config.map_err(|error| error.to_string())?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only();
        let connector = builder.enable_all_versions().build();
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(connector);
        Ok(Self { client, limit })
    }

    /// Gets a document, with a bearer token if one is given.
    ///
    /// # Errors
    /// Why there is none. The text shows the address, and nothing of the document.
    pub(crate) async fn get(&self, url: &Uri, token: Option<&str>) -> Result<Bytes, String> {
        let fetched = timeout(self.limit, self.follow(url, token)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.limit)));
        fetched.map_err(|why| format!("GET {url}: {why}"))
    }

    async fn follow(&self, url: &Uri, token: Option<&str>) -> Result<Bytes, String> {
        let mut url = url.clone();
        for _ in 0..redirect::MOST_REQUESTS {
            let request = request(&url, token)?;
            let response = self.client.request(request).await.map_err(|error| describe(&error))?;
            let (head, body) = response.into_parts();
            match redirect::of_get(&url, head.status, &head.headers) {
                Some(to) => url = to?,
                None if head.status == StatusCode::OK => {
                    return match Limited::new(body, DOCUMENT_BYTES).collect().await {
                        Ok(collected) => Ok(collected.to_bytes()),
                        Err(error) if error.is::<LengthLimitError>() => {
                            Err(format!("the answer is larger than {DOCUMENT_BYTES} bytes"))
                        }
                        Err(error) => Err(describe(&*error)),
                    };
                }
                None => return Err(format!("the answer is {}", head.status)),
            }
        }
        Err(format!("stopped after {} redirects", redirect::MOST_REQUESTS))
    }
}

fn request(url: &Uri, token: Option<&str>) -> Result<Request<Empty<Bytes>>, String> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = url.clone();
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
    let agent = concat!("portcullis/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    if let Some(token) = token {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| "the access token has characters that are invalid in a header".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(request)
}
