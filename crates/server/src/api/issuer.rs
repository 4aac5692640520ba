//! Who issues service-account tokens, for those who verify them: the OpenID configuration, and the keys (AP-104).

use std::collections::BTreeSet;

use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use portcullis_pki::jwt::PublicKey;
use serde_json::json;

use super::negotiate;
use crate::authn::service_account::DEFAULT_ISSUER;
use crate::authz::Permit;
use crate::service::App;
use crate::status::{self, Answer, Status};

/// The media type of keys.
const KEYS: &str = "application/jwk-set+json";

/// One of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Document {
    /// `/.well-known/openid-configuration`
    Configuration,
    /// `/openid/v1/jwks`
    Keys,
}

/// Answers with a document. Of a server that issues no tokens it holds no key: whoever verifies by it takes none.
///
/// # Errors
/// Not a GET, or a form that is not served.
pub(crate) fn answer(_permit: Permit, app: &App, document: Document, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let accounts = app.authentication().service_accounts();
    let keys = accounts.map(|accounts| accounts.keys()).unwrap_or_default();
    match document {
        Document::Configuration => {
            negotiate::document(&head.headers)?;
            let settings = accounts.map(|accounts| accounts.issuer());
            let issuer =
                settings.and_then(|issuer| issuer.issuers.first()).map_or(DEFAULT_ISSUER, String::as_str);
            let uri = settings.and_then(|issuer| issuer.jwks_uri.clone());
            let algorithms: BTreeSet<&str> = keys.iter().map(PublicKey::algorithm).collect();
            let configuration = json!({
                "issuer": issuer,
                "jwks_uri": uri.unwrap_or_else(|| format!("{}/openid/v1/jwks", issuer.trim_end_matches('/'))),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": algorithms,
            });
            Ok(status::json(StatusCode::OK, &configuration))
        }
        Document::Keys => {
            negotiate::only(&head.headers, KEYS)?;
            let keys: Vec<_> = keys.iter().map(PublicKey::jwk).collect();
            let mut answer = status::json(StatusCode::OK, &json!({"keys": keys}));
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(KEYS));
            Ok(answer)
        }
    }
}
