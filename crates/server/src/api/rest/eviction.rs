//! `pods/eviction` (AP-121).

use kinds::Map;
use kinds::schema::policy::EVICTION;

use super::binding;
use super::request::Request;
use crate::http::negotiate;
use crate::http::status::{Answer, Status};
use crate::registry::decode::{self, Expected};
use crate::registry::evict::evict;
use crate::registry::meta;
use crate::registry::options::{self, WriteKind};

/// Evicts a pod.
pub(crate) async fn answer(request: &Request<'_>, bytes: &[u8]) -> Result<Answer, Status> {
    let form = negotiate::form(&request.head.headers)?;
    let options = options::write(&request.query, WriteKind::Create)?;
    let read = |api_version| {
        let expected = Expected { kind: EVICTION.name, api_version, shape: &EVICTION, custom: None };
        decode::document(bytes, form, expected, options.validation)
    };
    let read = read("policy/v1").or_else(|refusal| read("policy/v1beta1").map_err(|_| refusal));
    let mut eviction: Map = read?.object;
    meta::place(&mut eviction, &request.scope.target)?;
    request.note(|| eviction.clone().into());
    evict(&request.scope, eviction, &options).await?;
    Ok(binding::created())
}
