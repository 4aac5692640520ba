//! Asks the chains of both sides about every class of requests. The words come from the documents, and the identities from the
//! table of the rules (AU-31).

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::audit::diff::{Change, Report, Row, Target, WordList};
use portcullis_policy::rbac::default_policy;
use portcullis_policy::{Attributes, FeatureGates, Mode, ResourceRequest, User};
use serde_json::{Value, json};

use crate::diff::support::Side;

/// A word that nobody uses.
const OTHER: &str = "<other>";

/// Subject, verb, and the path or group, resource, subresource, name, namespace.
pub(crate) type Class = (String, String, Vec<String>);

/// The words of both sides.
#[derive(Debug, Default)]
pub(crate) struct Words {
    factors: BTreeMap<&'static str, BTreeSet<String>>,
    subjects: BTreeMap<String, User>,
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap())
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

impl Words {
    pub(crate) fn of(sides: [&Side; 2]) -> Self {
        let mut words = Self::default();
        for factor in ["groups", "subresources", "names", "namespaces"] {
            words.add(factor, "");
        }
        let factors =
            ["verbs", "groups", "resources", "subresources", "names", "namespaces", "nonResourceURLs"];
        factors.into_iter().for_each(|factor| words.add(factor, OTHER));
        words.group("system:authenticated");
        words.group("system:unauthenticated");
        for side in sides {
            words.add_side(side);
        }
        if sides.iter().any(|side| side.modes.contains(&Mode::Node)) {
            words.user("system:node:<any>");
            let nodes = words.subjects.keys().filter_map(|name| name.strip_prefix("node/"));
            let nodes: Vec<String> = nodes.map(str::to_owned).collect();
            nodes.iter().for_each(|name| words.add("names", name));
        }
        words
    }

    fn add_side(&mut self, side: &Side) {
        if side.modes.contains(&Mode::Rbac) {
            side.documents.iter().for_each(|document| self.add_document(document));
            self.user_if_named(&side.super_user);
        }
        if side.modes.contains(&Mode::Abac) {
            side.lines.iter().for_each(|line| self.add_line(line));
        }
        if side.modes.contains(&Mode::Node) {
            for rule in default_policy::node_rules(FeatureGates::default()) {
                self.add_rule(&json!({
                    "verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources,
                }));
            }
            self.add("namespaces", "kube-node-lease");
        }
    }

    fn add(&mut self, factor: &'static str, word: &str) {
        self.factors.entry(factor).or_default().insert(word.to_owned());
    }

    fn add_document(&mut self, document: &Value) {
        document["rules"].as_array().into_iter().flatten().for_each(|rule| self.add_rule(rule));
        let namespace = text(&document["metadata"], "namespace");
        if text(document, "kind") == "RoleBinding" {
            self.add("namespaces", namespace);
        }
        for subject in document["subjects"].as_array().into_iter().flatten() {
            let name = text(subject, "name");
            let own = text(subject, "namespace");
            let own = if own.is_empty() { namespace } else { own };
            match text(subject, "kind") {
                "User" => self.user(name),
                "Group" => self.group(name),
                "ServiceAccount" if !own.is_empty() => {
                    self.user(&format!("system:serviceaccount:{own}:{name}"))
                }
                _ => {}
            }
        }
    }

    fn add_rule(&mut self, rule: &Value) {
        let plain = |list: &'static str| strings(&rule[list]).filter(|word| *word != "*").map(str::to_owned);
        plain("verbs").for_each(|word| self.add("verbs", &word));
        plain("apiGroups").for_each(|word| self.add("groups", &word));
        strings(&rule["resourceNames"]).for_each(|word| self.add("names", word));
        for entry in plain("resources") {
            let (resource, subresource) = entry.split_once('/').unwrap_or((&entry, ""));
            self.add("subresources", subresource);
            // A request for a resource has one.
            if !matches!(resource, "" | "*") {
                self.add("resources", resource);
            }
        }
        strings(&rule["nonResourceURLs"]).for_each(|entry| self.add_url(entry));
    }

    fn add_line(&mut self, line: &Value) {
        let (user, group) = (text(line, "user"), text(line, "group"));
        // AB-20
        if user == "*" || group == "*" {
            self.group("system:authenticated");
        } else {
            self.user_if_named(user);
            if !group.is_empty() {
                self.group(group);
            }
        }
        if line["readonly"] == true {
            ["get", "list", "watch"].iter().for_each(|verb| self.add("verbs", verb));
        }
        for (factor, field) in
            [("groups", "apiGroup"), ("resources", "resource"), ("namespaces", "namespace")]
        {
            let word = text(line, field);
            if word != "*" && (factor != "resources" || !word.is_empty()) {
                self.add(factor, word);
            }
        }
        self.add_url(text(line, "nonResourcePath"));
    }

    fn add_url(&mut self, entry: &str) {
        let prefix = entry.trim_end_matches('*');
        if !prefix.is_empty() {
            self.add("nonResourceURLs", prefix);
        }
        if prefix != entry {
            self.add("nonResourceURLs", &format!("{prefix}{OTHER}"));
        }
    }

    fn user_if_named(&mut self, name: &str) {
        if !name.is_empty() {
            self.user(name);
        }
    }

    /// AU-31, the rows for users and accounts.
    fn user(&mut self, name: &str) {
        let parts: Vec<&str> = name.split(':').collect();
        let (subject, groups) = match parts[..] {
            ["system", "serviceaccount", namespace, account] => {
                let of_namespace = format!("system:serviceaccounts:{namespace}");
                let groups = vec![
                    of_namespace,
                    "system:serviceaccounts".to_owned(),
                    "system:authenticated".to_owned(),
                ];
                (format!("serviceaccount/{namespace}/{account}"), groups)
            }
            ["system", "node", node] => {
                (format!("node/{node}"), vec!["system:nodes".to_owned(), "system:authenticated".to_owned()])
            }
            ["system", "anonymous"] => (format!("user/{name}"), vec!["system:unauthenticated".to_owned()]),
            _ => (format!("user/{name}"), vec!["system:authenticated".to_owned()]),
        };
        self.subjects.insert(subject, User::new(name, groups));
    }

    /// AU-31, the rows for groups.
    fn group(&mut self, name: &str) {
        let mut groups = vec![name.to_owned()];
        if name.starts_with("system:serviceaccounts:") {
            groups.push("system:serviceaccounts".to_owned());
        }
        if !name.ends_with("authenticated") {
            groups.push("system:authenticated".to_owned());
        }
        if name != "system:masters" {
            self.subjects.insert(format!("group/{name}"), User::new("nobody has this name", groups));
        }
    }

    fn all(&self, factor: &str) -> Vec<&str> {
        self.factors[factor].iter().map(String::as_str).collect()
    }

    /// The words that a list stands for.
    fn meant(&self, factor: &str, list: &WordList) -> Vec<String> {
        assert_eq!(list.more, 0);
        let is_meant = |word: &&String| list.words.contains(*word) != list.is_all_but;
        self.factors[factor].iter().filter(is_meant).cloned().collect()
    }

    /// The classes that a change stands for.
    pub(crate) fn classes_of(&self, change: &Change) -> BTreeSet<Class> {
        let mut targets = vec![Vec::new()];
        let factors: &[&str] = match change.words.contains_key("nonResourceURLs") {
            true => &["nonResourceURLs"],
            false => &["groups", "resources", "subresources", "names", "namespaces"],
        };
        for factor in factors {
            let words = self.meant(factor, &change.words[factor]);
            let longer = |target: &Vec<String>| {
                let target = target.clone();
                words
                    .iter()
                    .map(move |word| [target.clone(), vec![word.clone()]].concat())
                    .collect::<Vec<_>>()
            };
            targets = targets.iter().flat_map(longer).collect();
        }
        let verbs = self.meant("verbs", &change.words["verbs"]);
        let subject = change.subject.to_string();
        let of = |target: Vec<String>| {
            let subject = subject.clone();
            verbs.iter().map(move |verb| (subject.clone(), verb.clone(), target.clone())).collect::<Vec<_>>()
        };
        targets.into_iter().flat_map(of).collect()
    }
}

/// The classes that the new side alone allows, and those that the old side alone allows.
pub(crate) fn differences(old: &Side, new: &Side) -> (BTreeSet<Class>, BTreeSet<Class>) {
    let words = Words::of([old, new]);
    let (old, new) = (old.state(), new.state());
    let (mut gained, mut lost) = (BTreeSet::new(), BTreeSet::new());
    let mut compare = |subject: &str, attributes: &Attributes<'_>, target: &[&str]| {
        let was = old.engine().chain().decide(attributes).is_allow();
        let now = new.engine().chain().decide(attributes).is_allow();
        if was != now {
            let target = target.iter().map(|word| (*word).to_owned()).collect();
            let class = (subject.to_owned(), attributes.verb.to_owned(), target);
            if now {
                gained.insert(class)
            } else {
                lost.insert(class)
            };
        }
    };
    for (subject, user) in &words.subjects {
        for verb in words.all("verbs") {
            for path in words.all("nonResourceURLs") {
                compare(subject, &Attributes { user, verb, path, resource: None }, &[path]);
            }
            for group in words.all("groups") {
                for resource in words.all("resources") {
                    for subresource in words.all("subresources") {
                        for name in words.all("names") {
                            for namespace in words.all("namespaces") {
                                let request = ResourceRequest {
                                    namespace,
                                    group,
                                    resource,
                                    subresource,
                                    name,
                                    ..ResourceRequest::default()
                                };
                                let attributes = Attributes { user, verb, path: "", resource: Some(request) };
                                compare(
                                    subject,
                                    &attributes,
                                    &[group, resource, subresource, name, namespace],
                                );
                            }
                        }
                    }
                }
            }
        }
    }
    (gained, lost)
}

/// The classes of rows. None is there twice.
pub(crate) fn classes(rows: &[Row]) -> BTreeSet<Class> {
    let mut classes = BTreeSet::new();
    for row in rows {
        let target = match row.target.clone() {
            Target::Url { url } => vec![url],
            Target::Resource { group, resource, subresource, name, namespace } => {
                vec![group, resource, subresource, name, namespace]
            }
        };
        for verb in &row.verbs {
            let class = (row.subject.clone(), verb.clone(), target.clone());
            assert!(classes.insert(class), "twice: {row:?}");
        }
    }
    classes
}

/// The same classes in a readable form.
pub(crate) fn listed(report: &Report) -> (BTreeSet<Class>, BTreeSet<Class>) {
    (classes(&report.gained), classes(&report.lost))
}
