//! The OpenID configuration and the public keys by which others verify service account tokens (AP-104).

use std::collections::BTreeSet;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use pki::jwt::PublicKey;
use serde_json::json;

use super::app::App;
use super::route::IssuerDocument;
use crate::authn::service_account::DEFAULT_ISSUER;
use crate::authz::Permit;
use crate::http::negotiate::{self, Forms};
use crate::http::status::{self, Answer, Status};

/// The media type of a JSON Web Key Set.
const KEYS: &str = "application/jwk-set+json";
/// How long clients may keep the documents.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Answers with an issuer document.
///
/// # Errors
/// The method is not GET, or the requested media type is not supported.
pub(crate) fn answer(
    _permit: Permit,
    app: &App,
    document: IssuerDocument,
    head: &Parts,
) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let accounts = app.authentication().service_accounts();
    let keys = accounts.keys();
    match document {
        IssuerDocument::Configuration => {
            negotiate::document(&head.headers, Forms::TEXT)?;
            let settings = accounts.issuer();
            let issuer = settings.issuers.first().map_or(DEFAULT_ISSUER, String::as_str);
            let uri = settings.jwks_uri.clone();
            let algorithms: BTreeSet<&str> = keys.iter().map(PublicKey::algorithm).collect();
            let configuration = json!({
                "issuer": issuer,
                "jwks_uri": uri.unwrap_or_else(|| format!("{}/openid/v1/jwks", issuer.trim_end_matches('/'))),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": algorithms,
            });
            let mut answer = status::json(StatusCode::OK, &configuration);
            answer.headers_mut().insert(CACHE_CONTROL, CACHED);
            Ok(answer)
        }
        IssuerDocument::Keys => {
            negotiate::only(&head.headers, KEYS)?;
            let keys: Vec<_> = keys.iter().map(PublicKey::jwk).collect();
            let mut answer = status::json(StatusCode::OK, &json!({"keys": keys}));
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(KEYS));
            answer.headers_mut().insert(CACHE_CONTROL, CACHED);
            Ok(answer)
        }
    }
}
