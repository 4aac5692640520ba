//! Asks kubelets themselves for their configuration, for commands that look at a cluster (AU-19).
//!
//! A kubelet gets our credentials only if its certificate verifies. It may be the very machine that is stolen: what it answers is
//! bounded in size and time, and is hostile input.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use http::Request;
use http::header::{ACCEPT, USER_AGENT};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use tokio::time::timeout;

use crate::call::CallError;
use crate::connect::{ConnectError, Connection, describe};
use crate::snapshot::AGENT;

/// The path of the configuration. It takes the right `get nodes/configz`.
const PATH: &str = "/configz";
/// How many kubelets are asked at a time.
const AT_A_TIME: usize = 16;
/// How long one kubelet may take. Many may be gone.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The size of an answer. In bytes.
const MOST: usize = 1 << 20;

/// A kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    /// The name of its node.
    pub node: String,
    /// Its address: an IP address, or a name.
    pub address: String,
    /// Its port.
    pub port: u16,
}

impl Kubelet {
    fn url(&self) -> String {
        let Self { address, port, .. } = self;
        match address.contains(':') {
            true => format!("https://[{address}]:{port}"),
            false => format!("https://{address}:{port}"),
        }
    }

    fn unreachable(&self, why: String) -> CallError {
        CallError::Unreachable { server: self.url(), why }
    }
}

/// A client of kubelets, with the credentials of a connection.
#[derive(Clone)]
pub struct KubeletClient {
    client: kube::Client,
}

impl fmt::Debug for KubeletClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeletClient").finish_non_exhaustive()
    }
}

impl KubeletClient {
    /// Makes the client. Certificates of kubelets are verified by `authority` (PEM), or without it by the authority of the API server.
    ///
    /// # Errors
    /// The files of the connection or the authority are invalid.
    pub fn new(connection: &Connection, authority: Option<&[u8]>) -> Result<Self, ConnectError> {
        Ok(Self { client: connection.client_of_others(authority)? })
    }

    /// Asks each kubelet for its configuration, in their order, at most 16 at a time, each for at most 10 s. An answer has at most 1 MiB.
    pub async fn configurations(&self, kubelets: &[Kubelet]) -> Vec<Result<String, CallError>> {
        let answers = kubelets.iter().map(|kubelet| async move {
            match timeout(TIMEOUT, ask(&self.client, kubelet)).await {
                Ok(answer) => answer,
                Err(_) => Err(kubelet.unreachable(format!("no answer in {} s", TIMEOUT.as_secs()))),
            }
        });
        stream::iter(answers).buffered(AT_A_TIME).collect().await
    }
}

async fn ask(client: &kube::Client, kubelet: &Kubelet) -> Result<String, CallError> {
    let request = Request::get(format!("{}{PATH}", kubelet.url()));
    let request = request.header(ACCEPT, "application/json").header(USER_AGENT, AGENT);
    let request = request.body(Body::empty()).map_err(|error| kubelet.unreachable(error.to_string()))?;
    let answer = client.send(request).await.map_err(|error| kubelet.unreachable(describe(&error)))?;
    let (head, body) = answer.into_parts();
    if !head.status.is_success() {
        let (code, reason) = (head.status.as_u16(), String::new());
        let message = head.status.canonical_reason().unwrap_or("refused").to_owned();
        return Err(CallError::Refused { code, reason, message });
    }
    let wrong = |why: String| CallError::Answer { path: PATH.to_owned(), why };
    let body = Limited::new(body, MOST).collect().await;
    let bytes = body.map_err(|error| wrong(error.to_string()))?.to_bytes();
    String::from_utf8(bytes.into()).map_err(|_| wrong("it is not UTF-8".to_owned()))
}
