//! The checks that both paths share.

use super::question::Question;
use super::reason::Reason;
use super::request::{Key, Pkcs10, Request};
use super::result::{CheckResult, Failure};

/// NB-70 to NB-73.
pub(super) fn within_limit(question: &Question<'_>) -> CheckResult {
    question.cluster.limits.check_total(question.request).into()
}

/// NB-75.
pub(super) fn newest(question: &Question<'_>) -> CheckResult {
    question.cluster.limits.check_newest(question.request, question.path).into()
}

/// NB-74.
pub(super) fn within_identity(question: &Question<'_>) -> CheckResult {
    question.cluster.limits.check_identity(question.request).into()
}

/// NB-82, NB-101: exactly one request, signed with its own key, which must be acceptable.
pub(super) fn well_formed(question: &Question<'_>) -> CheckResult {
    let malformed = |why: String| CheckResult::Failed(Failure::of(Reason::MalformedRequest, why));
    let content = match &question.request.content {
        Ok(content) => content,
        Err(why) => return malformed(why.clone()),
    };
    if content.has_trailing_data {
        return malformed("more follows the first PEM block".to_owned());
    }
    if content.is_sha1 {
        return malformed("the request is signed over a SHA-1 hash".to_owned());
    }
    match content.key {
        key if key.is_sound() => CheckResult::Passed(String::new()),
        Key::Rsa { bits } => malformed(format!("an RSA key of {bits} bits; 2048 are needed")),
        _ => malformed("the key is not ECDSA P-256, P-384 or P-521, RSA or Ed25519".to_owned()),
    }
}

/// Returns the content, for checks after NB-82.
pub(super) fn content<'a>(question: &Question<'a>) -> Result<&'a Pkcs10, CheckResult> {
    question.request.content.as_ref().map_err(|_| CheckResult::NotEvaluated("the request cannot be read"))
}

/// Compares two lists as sets, ignoring order and repetition.
pub(super) fn same_set<'a>(
    have: impl IntoIterator<Item = &'a str>,
    want: impl IntoIterator<Item = &'a str>,
) -> bool {
    let sorted = |items: Vec<&'a str>| {
        let mut items = items;
        items.sort_unstable();
        items.dedup();
        items
    };
    sorted(have.into_iter().collect()) == sorted(want.into_iter().collect())
}

/// NB-83, NB-104: `digital signature`, `purpose`, and optionally `key encipherment`.
pub(super) fn has_usages(request: &Request, purpose: &'static str) -> bool {
    let have = || request.usages.iter().map(String::as_str);
    same_set(have(), ["digital signature", purpose])
        || same_set(have(), ["digital signature", "key encipherment", purpose])
}

const KEY_USAGE: &str = "2.5.29.15";
const EXTENDED_KEY_USAGE: &str = "2.5.29.37";
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
/// The provider ID of the machine, under the OID arc that is used until Kubernetes has its own (AT-40).
const PROVIDER_ID: &str = "1.3.6.1.4.1.11129.2.1.21";
/// Subject alternative names.
pub(super) const SUBJECT_ALT_NAME: &str = "2.5.29.17";

/// NB-83, NB-108: returns the first extension that must not be requested.
pub(super) fn forbidden_extension(content: &Pkcs10, also: Option<&str>) -> Option<String> {
    content.extensions.iter().find_map(|extension| match extension.oid.as_str() {
        KEY_USAGE | EXTENDED_KEY_USAGE | PROVIDER_ID => None,
        BASIC_CONSTRAINTS if !extension.is_ca => None,
        BASIC_CONSTRAINTS => Some("basic constraints of an authority".to_owned()),
        oid if Some(oid) == also => None,
        oid => Some(format!("the extension {oid}")),
    })
}
