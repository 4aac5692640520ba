//! Who issues service-account tokens, for those who verify them: the OpenID configuration, and the keys (AP-104).
//!
//! No tokens are issued yet, so there is no key: whoever verifies by this document takes none.

use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use serde_json::json;

use super::negotiate;
use crate::authz::Permit;
use crate::status::{self, Answer, Status};

/// Whom tokens name as their issuer: the name of the API server within a cluster.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

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

/// Answers with a document.
///
/// # Errors
/// Not a GET, or a form that is not served.
pub(crate) fn answer(_permit: Permit, document: Document, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    match document {
        Document::Configuration => {
            negotiate::document(&head.headers)?;
            let configuration = json!({
                "issuer": ISSUER,
                "jwks_uri": format!("{ISSUER}/openid/v1/jwks"),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            });
            Ok(status::json(StatusCode::OK, &configuration))
        }
        Document::Keys => {
            negotiate::only(&head.headers, KEYS)?;
            let mut answer = status::json(StatusCode::OK, &json!({"keys": []}));
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(KEYS));
            Ok(answer)
        }
    }
}
