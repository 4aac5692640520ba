//! What is asked, as it is sent, and the keys that answers are kept under (KA-45, KA-52, KA-60).
//!
//! Answers are kept under hashes: what a caller sends takes up no memory here.

use std::collections::BTreeMap;

use portcullis_pki as pki;
use portcullis_policy::{Attributes, User};
use serde::Serialize;

/// A question, hashed.
pub(super) type Key = [u8; 32];

/// KA-62: answers to questions of so many bytes or more are not kept.
const ATTRIBUTE_BYTES: usize = 10_000;

/// A hash under which no two tokens come together, and which nobody can compute who does not know the key (KA-45).
pub(super) fn token_key(secret: &[u8; 32], token: &str) -> Key {
    // The length of the token, the token, and how many audiences are asked for: none (KA-44).
    pki::hmac_sha256(secret, &[&length(token.len()), token.as_bytes(), &length(0)])
}

/// A TokenReview without audiences (KA-44).
pub(super) fn token_review(token: &str) -> Result<Vec<u8>, serde_json::Error> {
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a, S> {
    kind: &'a str,
    api_version: &'a str,
    metadata: BTreeMap<&'a str, ()>,
    spec: S,
    status: BTreeMap<&'a str, bool>,
}

/// The spec of a SubjectAccessReview. What is empty is left out (WH-13).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<Resource<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<NonResource<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'a str,
    #[serde(skip_serializing_if = "no_groups")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

fn no_groups(groups: &&[String]) -> bool {
    groups.is_empty()
}

#[derive(Serialize)]
struct Resource<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct NonResource<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'a str,
}

/// A SubjectAccessReview (KA-52). The path of a request for a resource is no part of it (KA-27).
pub(super) fn access_review(attributes: &Attributes<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let (user, verb) = (attributes.user, attributes.verb);
    let (resource_attributes, non_resource_attributes) = match &attributes.resource {
        Some(asked) => {
            let resource = Resource {
                namespace: asked.namespace,
                verb,
                group: asked.group,
                version: asked.version,
                resource: asked.resource,
                subresource: asked.subresource,
                name: asked.name,
            };
            (Some(resource), None)
        }
        None => (None, Some(NonResource { path: attributes.path, verb })),
    };
    serde_json::to_vec(&Review {
        kind: "SubjectAccessReview",
        api_version: "authorization.k8s.io/v1",
        metadata: BTreeMap::new(),
        spec: Spec {
            resource_attributes,
            non_resource_attributes,
            user: &user.name,
            groups: &user.groups,
            extra: &user.extra,
            uid: &user.uid,
        },
        status: BTreeMap::from([("allowed", false)]),
    })
}

/// The hash of all that a SubjectAccessReview would say: two questions have the same one only if they say the same, in
/// the same order (KA-60).
pub(super) fn access_key(attributes: &Attributes<'_>) -> Key {
    let mut said = Vec::with_capacity(512);
    match &attributes.resource {
        Some(asked) => {
            said.push(1);
            for text in [
                asked.namespace,
                attributes.verb,
                asked.group,
                asked.version,
                asked.resource,
                asked.subresource,
                asked.name,
            ] {
                put(&mut said, text);
            }
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

/// KA-62: whether the answer may be kept. The path counts although it is not sent; what is known of the user does not.
pub(super) fn may_keep(attributes: &Attributes<'_>) -> bool {
    let asked = attributes.resource.unwrap_or_default();
    let texts = [
        asked.namespace,
        attributes.verb,
        asked.group,
        asked.version,
        asked.resource,
        asked.subresource,
        asked.name,
        attributes.path,
    ];
    texts.iter().map(|text| text.len()).sum::<usize>() < ATTRIBUTE_BYTES
}

/// How many bytes a user's texts have.
pub(super) fn user_bytes(user: &User) -> usize {
    let all = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
    let extra: usize = user.extra.iter().map(|(key, values)| key.len() + all(values)).sum();
    user.name.len() + user.uid.len() + all(&user.groups) + extra
}

fn put_all(said: &mut Vec<u8>, texts: &[String]) {
    said.extend(length(texts.len()));
    texts.iter().for_each(|text| put(said, text));
}

/// With its length before it, no text runs into the next.
fn put(said: &mut Vec<u8>, text: &str) {
    said.extend(length(text.len()));
    said.extend(text.as_bytes());
}

fn length(of: usize) -> [u8; 8] {
    (of as u64).to_be_bytes()
}

#[cfg(test)]
mod tests {
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
        /// The key that Kubernetes takes is the JSON of the spec.
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
                let review: Value = serde_json::from_slice(&access_review(attributes).unwrap()).unwrap();
                review["spec"].to_string()
            };
            let (a, b) = (ask(0), ask(1));
            prop_assert_eq!(access_key(&a) == access_key(&b), spec(&a) == spec(&b));
            // The path of a request for a resource plays no part.
            if resources[0] {
                prop_assert_eq!(access_key(&a), access_key(&Attributes { path: "/elsewhere", ..a }));
            }
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
