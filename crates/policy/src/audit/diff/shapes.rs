//! What a rule grants, as products of words: each allows every combination of its words, and nothing else.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::words::{Factor, Vocabulary, WordId, Words};
use crate::abac;
use crate::objects::rbac::PolicyRule;

/// Requests for resources, or for paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Space {
    Resources,
    Urls,
}

impl Space {
    /// The factors of a request.
    pub(super) fn factors(self) -> &'static [Factor] {
        match self {
            Self::Resources => &Factor::OF_RESOURCES,
            Self::Urls => &Factor::OF_URLS,
        }
    }
}

/// A product: the words of every factor but the namespace, which is the binding's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) space: Space,
    /// In the order of [`Space::factors`].
    words: Vec<Words>,
}

impl Shape {
    fn of_resources([group, resource, subresource, name, verb]: [Words; 5]) -> Self {
        Self { space: Space::Resources, words: vec![group, resource, subresource, name, verb] }
    }

    fn of_urls(url: Words, verb: Words) -> Self {
        Self { space: Space::Urls, words: vec![url, verb] }
    }

    /// The words of all factors, within a namespace or everywhere.
    pub(super) fn within(&self, namespace: Option<WordId>) -> Vec<Words> {
        let namespace = namespace.map_or(Words::ALL, Words::one);
        let namespace = (self.space == Space::Resources).then_some(namespace);
        namespace.into_iter().chain(self.words.iter().cloned()).collect()
    }

    /// Whether it is of requests for paths.
    pub(super) fn is_of_urls(&self) -> bool {
        self.space == Space::Urls
    }

    fn is_empty(&self) -> bool {
        self.words.iter().any(Words::is_empty)
    }
}

/// The number of a shape. Equal shapes have equal numbers, whichever side they are of.
pub(super) type ShapeId = u32;

/// Makes shapes, and keeps each once.
#[derive(Debug)]
pub(super) struct Shapes<'v> {
    vocabulary: &'v Vocabulary,
    shapes: Vec<Shape>,
    ids: HashMap<Shape, ShapeId>,
}

impl<'v> Shapes<'v> {
    pub(super) fn new(vocabulary: &'v Vocabulary) -> Self {
        Self { vocabulary, shapes: Vec::new(), ids: HashMap::new() }
    }

    pub(super) fn vocabulary(&self) -> &'v Vocabulary {
        self.vocabulary
    }

    pub(super) fn get(&self, id: ShapeId) -> Option<&Shape> {
        self.shapes.get(id as usize)
    }

    /// What a rule of a role grants (RB-10 to RB-18).
    pub(super) fn of_rule(&mut self, rule: &PolicyRule) -> Vec<ShapeId> {
        let vocabulary = self.vocabulary;
        let verbs = vocabulary.listed(Factor::Verb, &rule.verbs);
        let groups = vocabulary.listed(Factor::Group, &rule.api_groups);
        let names = match rule.resource_names.as_slice() {
            [] => Words::ALL,
            names => vocabulary.only(Factor::Name, names.iter().map(String::as_str)),
        };
        let urls = vocabulary.urls(rule.non_resource_urls.iter().map(String::as_str));
        let mut shapes = vec![Shape::of_urls(urls, verbs.clone())];
        shapes.extend(resources(vocabulary, &rule.resources).into_iter().map(|(resources, subresources)| {
            Shape::of_resources([groups.clone(), resources, subresources, names.clone(), verbs.clone()])
        }));
        self.keep(shapes)
    }

    /// What a line of an ABAC policy file grants (AB-32 to AB-41); its namespace is apart.
    pub(super) fn of_line(&mut self, line: &abac::Policy) -> Vec<ShapeId> {
        let vocabulary = self.vocabulary;
        let verbs = match line.readonly {
            true => vocabulary.only(Factor::Verb, ["get", "list", "watch"].into_iter()),
            false => Words::ALL,
        };
        let urls = vocabulary.urls(std::iter::once(line.non_resource_path.as_str()));
        let group = vocabulary.field(Factor::Group, &line.api_group);
        let resource = vocabulary.field(Factor::Resource, &line.resource);
        let of_resources = Shape::of_resources([group, resource, Words::ALL, Words::ALL, verbs.clone()]);
        self.keep(vec![of_resources, Shape::of_urls(urls, verbs)])
    }

    /// Everything (AC-60).
    pub(super) fn everything(&mut self) -> Vec<ShapeId> {
        let all = || Words::ALL;
        self.keep(vec![
            Shape::of_resources([all(), all(), all(), all(), all()]),
            Shape::of_urls(all(), all()),
        ])
    }

    /// One product of resource words.
    pub(super) fn product(&mut self, words: [Words; 5]) -> Vec<ShapeId> {
        self.keep(vec![Shape::of_resources(words)])
    }

    fn keep(&mut self, shapes: Vec<Shape>) -> Vec<ShapeId> {
        let mut ids = Vec::new();
        for shape in shapes.into_iter().filter(|shape| !shape.is_empty()) {
            let known = self.ids.get(&shape).copied();
            let Some(id) = known.or_else(|| ShapeId::try_from(self.shapes.len()).ok()) else { continue };
            if known.is_none() {
                self.ids.insert(shape.clone(), id);
                self.shapes.push(shape);
            }
            ids.push(id);
        }
        ids
    }
}

/// The resources and subresources of a list (RB-12, RB-13), as products.
fn resources(vocabulary: &Vocabulary, entries: &[String]) -> Vec<(Words, Words)> {
    if entries.iter().any(|entry| entry == "*") {
        return vec![(Words::ALL, Words::ALL)];
    }
    let mut by_subresource = BTreeMap::<WordId, Words>::new();
    let mut add = |resource: Words, subresource: &str| {
        let Some(id) = vocabulary.id(Factor::Subresource, subresource) else { return };
        let known = by_subresource.entry(id).or_insert_with(|| Words::Only(Vec::new()));
        *known = known.union(&resource);
    };
    for entry in entries {
        add(vocabulary.only(Factor::Resource, std::iter::once(entry.as_str())), "");
        for (at, _) in entry.match_indices('/') {
            let Some((resource, rest)) = entry.split_at_checked(at) else { continue };
            let subresource = rest.strip_prefix('/').unwrap_or_default();
            if !subresource.is_empty() {
                add(vocabulary.field(Factor::Resource, resource), subresource);
            }
        }
    }
    let mut products = BTreeMap::<Words, Vec<WordId>>::new();
    for (subresource, resources) in by_subresource {
        products.entry(resources).or_default().push(subresource);
    }
    products.into_iter().map(|(resources, subresources)| (resources, Words::Only(subresources))).collect()
}
