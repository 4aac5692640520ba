//! The calls of a plug-in: Kubernetes' gRPC service `v2.KeyManagementService`.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;

use http::Uri;
use http::uri::PathAndQuery;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::envelope::SeedSource;
use super::settings::{KmsError, Settings, quoted};
use crate::encryption::cipher::random;

/// The most bytes of an answer. The largest has 32 KiB of annotations.
const MOST: usize = 64 << 10;

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct StatusRequest {}

/// What a plug-in says of itself.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct StatusResponse {
    /// `v2`, or `v2beta1`.
    #[prost(string, tag = "1")]
    pub(super) version: String,
    /// `ok`, or what is wrong.
    #[prost(string, tag = "2")]
    pub(super) healthz: String,
    /// The key that encrypts now.
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
}

impl fmt::Debug for EncryptRequest {
    /// Without the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptRequest").field("uid", &self.uid).finish_non_exhaustive()
    }
}

/// An encrypted seed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

impl fmt::Debug for DecryptResponse {
    /// Without the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecryptResponse").finish_non_exhaustive()
    }
}

/// A connection to a plug-in, which is made when it is needed, and again after it has failed.
#[derive(Clone)]
pub(super) struct Service {
    grpc: Grpc<Channel>,
    settings: Settings,
}

impl Service {
    /// Prepares the connection. Must be called within a runtime.
    pub(super) fn new(settings: &Settings) -> Result<Self, KmsError> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", settings.socket));
        let endpoint = endpoint.map_err(|error| settings.failed(format!("has no valid socket: {error}")))?;
        let endpoint = endpoint.origin(Uri::from_static("http://localhost"));
        let grpc = Grpc::new(endpoint.connect_lazy()).max_decoding_message_size(MOST);
        Ok(Self { grpc, settings: settings.clone() })
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, KmsError> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {}).await
    }

    pub(super) async fn encrypt(&self, seed: &[u8]) -> Result<EncryptResponse, KmsError> {
        let request = EncryptRequest { plaintext: seed.to_vec(), uid: uid()? };
        self.call("/v2.KeyManagementService/Encrypt", request).await
    }

    /// Decrypts a seed.
    pub(super) async fn decrypt(&self, source: SeedSource) -> Result<Vec<u8>, KmsError> {
        let SeedSource { encrypted: ciphertext, key_id, annotations, .. } = source;
        let request = DecryptRequest { ciphertext, uid: uid()?, key_id, annotations };
        let response: DecryptResponse = self.call("/v2.KeyManagementService/Decrypt", request).await?;
        Ok(response.plaintext)
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, KmsError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = self.grpc.clone();
        let answer = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(Request::new(request), PathAndQuery::from_static(path), ProstCodec::default()).await
        };
        let limit = self.settings.timeout;
        let method = path.rsplit('/').next().unwrap_or_default();
        match timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.settings.failed(explained(method, &status))),
            Err(_) => Err(self.settings.failed(format!("has not answered {method} within {limit:?}"))),
        }
    }
}

/// Says whether the plug-in refused a call, or cannot be reached.
fn explained(method: &str, status: &Status) -> String {
    let mut cause = status.source();
    while let Some(deeper) = cause.and_then(std::error::Error::source) {
        cause = Some(deeper);
    }
    match cause {
        Some(cause) => {
            format!("cannot be reached: {cause}. Start the plug-in, and check the path and the permissions")
        }
        None => {
            let code = if status.code() == Code::Ok { Code::Unknown } else { status.code() };
            format!("has refused {method}: {}, {}", code.description(), quoted(status.message()))
        }
    }
}

/// A name for a call, by which the log of the plug-in can be compared.
fn uid() -> Result<String, KmsError> {
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
