//! The review requests, and the cache keys of their responses (KA-45, KA-52, KA-60).
//!
//! Cache keys are hashes, so that callers cannot fill the memory.

use std::collections::BTreeMap;

use portcullis_apimachinery::selector::{FieldRequirement, LabelRequirement};
use portcullis_pki as pki;
use portcullis_policy::review::{AccessReview, AccessStatus, ReviewVersion};
use portcullis_policy::{Attributes, ResourceRequest, User};
use serde::Serialize;

/// A question, hashed.
pub type Key = [u8; 32];

/// Answers to questions of so many bytes or more are not kept (KA-62, WH-53).
const ATTRIBUTE_BYTES: usize = 10_000;

/// Returns the keyed hash of a token, which is unique and which nobody can compute without the secret (KA-45).
pub(super) fn token_key(secret: &[u8; 32], token: &str) -> Key {
    // The length of the token, the token, and the number of audiences: zero (KA-44).
    pki::hmac_sha256(secret, &[&length(token.len()), token.as_bytes(), &length(0)])
}

/// Creates a TokenReview without audiences (KA-44).
pub(super) fn token_review(token: &str) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Review<'a> {
        kind: &'a str,
        api_version: &'a str,
        metadata: BTreeMap<&'a str, ()>,
        spec: Spec<'a>,
        status: BTreeMap<&'a str, bool>,
    }
    #[derive(Serialize)]
    struct Spec<'a> {
        token: &'a str,
    }
    serde_json::to_vec(&Review {
        kind: "TokenReview",
        api_version: "authentication.k8s.io/v1",
        metadata: BTreeMap::new(),
        spec: Spec { token },
        status: BTreeMap::new(),
    })
}

/// The SubjectAccessReview about a request (WH-11, KA-52).
///
/// # Errors
/// Cannot occur with these types.
pub fn access_review(
    attributes: &Attributes<'_>,
    version: ReviewVersion,
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&AccessReview::asking(attributes, version).answered(&AccessStatus::default()))
}

/// The hash of all that a SubjectAccessReview would say: two questions have the same one only if they say the same, in
/// the same order (KA-60, WH-51).
pub fn access_key(attributes: &Attributes<'_>) -> Key {
    let mut said = Vec::with_capacity(512);
    match &attributes.resource {
        Some(asked) => {
            said.push(1);
            texts(asked, attributes.verb).iter().for_each(|text| put(&mut said, text));
            for FieldRequirement { field, operator, value } in asked.field_selector {
                said.extend([1, *operator as u8]);
                put(&mut said, field);
                put(&mut said, value);
            }
            for LabelRequirement { key, operator, values } in asked.label_selector {
                said.extend([2, *operator as u8]);
                put(&mut said, key);
                put_all(&mut said, values);
            }
            said.push(0);
        }
        None => {
            said.push(0);
            put(&mut said, attributes.path);
            put(&mut said, attributes.verb);
        }
    }
    let User { name, uid, groups, extra } = attributes.user;
    put(&mut said, name);
    put(&mut said, uid);
    put_all(&mut said, groups);
    said.extend(length(extra.len()));
    for (key, values) in extra {
        put(&mut said, key);
        put_all(&mut said, values);
    }
    pki::sha256(&said)
}

/// Whether the answer may be kept (KA-62, WH-53). The path counts although it is not sent; the user does not.
pub fn may_keep(attributes: &Attributes<'_>) -> bool {
    let asked = attributes.resource.unwrap_or_default();
    let length: usize = texts(&asked, attributes.verb).iter().map(|text| text.len()).sum();
    length + attributes.path.len() < ATTRIBUTE_BYTES
}

/// Returns the texts that tell resource requests apart.
fn texts<'a>(asked: &ResourceRequest<'a>, verb: &'a str) -> [&'a str; 7] {
    let ResourceRequest { namespace, group, version, resource, subresource, name, .. } = *asked;
    [namespace, verb, group, version, resource, subresource, name]
}

/// Returns the total length of a user's strings, in bytes.
pub fn user_bytes(user: &User) -> usize {
    let all = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
    let extra: usize = user.extra.iter().map(|(key, values)| key.len() + all(values)).sum();
    user.name.len() + user.uid.len() + all(&user.groups) + extra
}

fn put_all(said: &mut Vec<u8>, texts: &[String]) {
    said.extend(length(texts.len()));
    texts.iter().for_each(|text| put(said, text));
}

/// The length prefix keeps strings apart.
fn put(said: &mut Vec<u8>, text: &str) {
    said.extend(length(text.len()));
    said.extend(text.as_bytes());
}

fn length(of: usize) -> [u8; 8] {
    (of as u64).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use portcullis_apimachinery::selector::{FieldOperator, LabelOperator};
    use portcullis_policy::ResourceRequest;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn user() -> impl Strategy<Value = User> {
        let texts = || prop::collection::vec("[ab]{0,2}", 0..3);
        let extra = prop::collection::btree_map("[ab]{0,2}", prop::collection::vec("[ab]{0,2}", 1..3), 0..3);
        ("[ab]{0,2}", "[ab]{0,2}", texts(), extra).prop_map(|(name, uid, groups, extra)| User {
            name,
            uid,
            groups,
            extra,
        })
    }

    proptest! {
        /// The cache key of Kubernetes is the JSON of the spec.
        #[test]
        fn questions_have_the_same_key_if_they_have_the_same_spec_ka_60(
            users in [user(), user()],
            texts in prop::array::uniform16("[ab]{0,1}"),
            resources in [any::<bool>(), any::<bool>()],
        ) {
            let ask = |which: usize| {
                let text = |at: usize| texts[which * 8 + at].as_str();
                let resource = ResourceRequest {
                    namespace: text(0), group: text(1), version: text(2), resource: text(3),
                    subresource: text(4), name: text(5), ..ResourceRequest::default()
                };
                Attributes {
                    user: &users[which], verb: text(6), path: text(7),
                    resource: resources[which].then_some(resource),
                }
            };
            let spec = |attributes: &Attributes<'_>| {
                let review: Value = serde_json::from_slice(&access_review(attributes, ReviewVersion::V1).unwrap()).unwrap();
                review["spec"].to_string()
            };
            let (a, b) = (ask(0), ask(1));
            prop_assert_eq!(access_key(&a) == access_key(&b), spec(&a) == spec(&b));
            // The path of a resource request is not part of the key.
            if resources[0] {
                prop_assert_eq!(access_key(&a), access_key(&Attributes { path: "/elsewhere", ..a }));
            }
        }
    }

    proptest! {
        #[test]
        fn different_questions_have_different_keys_wh_51(
            a in prop::collection::vec("[ab]{0,2}", 0..3), b in prop::collection::vec("[ab]{0,2}", 0..3),
        ) {
            let of_groups = |groups: &[String]| {
                let user = User::new("", groups.to_vec());
                access_key(&Attributes { user: &user, verb: "", path: "", resource: None })
            };
            prop_assert_eq!(a == b, of_groups(&a) == of_groups(&b));
            let user = User::default();
            let of_selectors = |values: &[String]| {
                let field = |value: &String| FieldRequirement {
                    field: "f".to_owned(), operator: FieldOperator::Equals, value: value.clone(),
                };
                let fields: Vec<_> = values.iter().map(field).collect();
                let labels = [LabelRequirement {
                    key: "k".to_owned(), operator: LabelOperator::In, values: values.to_vec(),
                }];
                let key = |resource| access_key(&Attributes { user: &user, verb: "", path: "", resource: Some(resource) });
                let plain = ResourceRequest::default();
                (
                    key(ResourceRequest { field_selector: &fields, ..plain }),
                    key(ResourceRequest { label_selector: &labels, ..plain }),
                )
            };
            let (of_a, of_b) = (of_selectors(&a), of_selectors(&b));
            prop_assert_eq!((a == b, a == b), (of_a.0 == of_b.0, of_a.1 == of_b.1));
        }
    }

    #[test]
    fn large_questions_are_not_remembered_wh_53_ka_62() {
        let user = User::new("u".repeat(20_000), Vec::<String>::new());
        for (length, may) in [(9_999, true), (10_000, false)] {
            let path = "p".repeat(length);
            assert_eq!(may_keep(&Attributes { user: &user, verb: "", path: &path, resource: None }), may);
        }
    }

    #[test]
    fn a_token_has_the_hash_of_its_length_itself_and_no_audience_ka_45() {
        let keys: Vec<Key> = ["a", "b", "ab", "a\0", ""].map(|token| token_key(&[7; 32], token)).into();
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(key));
        }
        assert_ne!(token_key(&[7; 32], "a"), token_key(&[8; 32], "a"));
    }
}
