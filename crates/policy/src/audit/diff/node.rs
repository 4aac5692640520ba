//! What mode Node grants to a node to which nothing belongs: the same requests for every node, and those for what has its own name
//! (NA-73 to NA-105). What belongs to nodes is the matter of reach (AU-112).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::shapes::{ShapeId, Shapes};
use super::words::{Collector, Factor, Vocabulary, WordId, Words};
use crate::decision::Authorizer as _;
use crate::features::FeatureGates;
use crate::graph::Graph;
use crate::identity::{NODE_USER_PREFIX, NODES_GROUP};
use crate::node::{NODE_LEASE_NAMESPACE, NodeAuthorizer};
use crate::rbac::default_policy;
use crate::request::{Attributes, ResourceRequest, User};

/// A word that mode Node does not know.
const UNKNOWN: &str = "?";

/// Adds the words of mode Node: those of the rules of ClusterRole `system:node` (RB-95), whose resources are all that it knows.
pub(super) fn add_words(collector: &mut Collector, gates: FeatureGates) {
    default_policy::node_rules(gates).iter().for_each(|rule| collector.add_rule(rule));
    collector.add(Factor::Namespace, NODE_LEASE_NAMESPACE);
}

/// What a node of this name is allowed, each with the namespace, or none for all.
pub(super) fn grants(
    node: &str,
    gates: FeatureGates,
    shapes: &mut Shapes<'_>,
) -> Vec<(Option<WordId>, ShapeId)> {
    let mut words = Collector::default();
    add_words(&mut words, gates);
    let words = words.finish(false);
    let asker = Asker {
        authorizer: NodeAuthorizer::new(Arc::new(Graph::new()), gates),
        user: User::new(format!("{NODE_USER_PREFIX}{node}"), [NODES_GROUP]),
        node,
    };
    let vocabulary = shapes.vocabulary();
    let of = |factor, word: Option<&str>| {
        word.map_or(Words::ALL, |word| vocabulary.only(factor, std::iter::once(word)))
    };
    // The verbs of each combination of the other factors.
    let mut products = BTreeMap::<(Option<WordId>, [Words; 4]), Vec<&str>>::new();
    for group in words.every(Factor::Group) {
        for resource in words.every(Factor::Resource) {
            for verb in words.every(Factor::Verb) {
                for Allowed { subresource, namespace, name } in asker.allowed(&words, group, resource, verb) {
                    let namespace =
                        namespace.and_then(|namespace| vocabulary.id(Factor::Namespace, namespace));
                    let product = [
                        of(Factor::Group, Some(group)),
                        of(Factor::Resource, Some(resource)),
                        of(Factor::Subresource, subresource),
                        of(Factor::Name, name),
                    ];
                    products.entry((namespace, product)).or_default().push(verb);
                }
            }
        }
    }
    let mut grants = Vec::new();
    for ((namespace, [group, resource, subresource, name]), verbs) in products {
        let verbs = vocabulary.only(Factor::Verb, verbs.into_iter());
        let shapes = shapes.product([group, resource, subresource, name, verbs]);
        grants.extend(shapes.into_iter().map(|shape| (namespace, shape)));
    }
    grants
}

/// With which words something is allowed; none for all of a factor.
struct Allowed<'w> {
    subresource: Option<&'w str>,
    namespace: Option<&'w str>,
    name: Option<&'w str>,
}

/// Asks mode Node for one node.
struct Asker<'n> {
    authorizer: NodeAuthorizer,
    user: User,
    node: &'n str,
}

impl Asker<'_> {
    /// With which subresources, in which namespace and to which name something is allowed.
    fn allowed<'w>(
        &'w self,
        words: &'w Vocabulary,
        group: &'w str,
        resource: &'w str,
        verb: &'w str,
    ) -> Vec<Allowed<'w>> {
        let another = format!("{}{UNKNOWN}", self.node);
        let allows = |subresource: &str, namespace: &str, name: &str| {
            let request = ResourceRequest {
                namespace,
                group,
                resource,
                subresource,
                name,
                ..ResourceRequest::default()
            };
            let attributes = Attributes { user: &self.user, verb, path: "", resource: Some(request) };
            self.authorizer.authorize(&attributes).is_allow()
        };
        let with = |subresource: Option<&'w str>| {
            let asked = subresource.unwrap_or(UNKNOWN);
            allows(asked, NODE_LEASE_NAMESPACE, self.node).then(|| Allowed {
                subresource,
                namespace: (!allows(asked, UNKNOWN, self.node)).then_some(NODE_LEASE_NAMESPACE),
                name: (!allows(asked, NODE_LEASE_NAMESPACE, &another)).then_some(self.node),
            })
        };
        // Of leases the subresource plays no part (NA-88).
        match with(None) {
            Some(all) => vec![all],
            None => words.every(Factor::Subresource).filter_map(|word| with(Some(word))).collect(),
        }
    }
}
