//! The question of an access check, read as `kubectl auth can-i` reads it (AU-96).

use clap::Args;
use portcullis_policy::{Attributes, ResourceRequest, User};

use crate::failure::Failure;
use crate::resource_type::ResourceType;

/// The words of a question.
#[derive(Args, Clone, Debug)]
pub struct QuestionFlags {
    /// get, list, watch, create, update, patch, delete, ...; for a path the HTTP method in lower case
    verb: String,

    /// TYPE[.GROUP][/NAME], or a path that begins with /
    #[arg(value_name = "TYPE[/NAME]|/PATH")]
    what: String,

    /// The name, if it is not given with the type
    name: Option<String>,

    /// The namespace; ignored for cluster-scoped types [default: that of the context if the cluster of a kubeconfig is read, else
    /// default]
    #[arg(short, long)]
    namespace: Option<String>,

    /// Check all namespaces at once, as for a list of everything
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// The subresource: status, log, token, ...
    #[arg(long, default_value = "", hide_default_value = true)]
    subresource: String,
}

/// The default namespace.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// The verbs of requests for resources, and those that only RBAC has.
pub(crate) const RESOURCE_VERBS: &[&str] = &[
    "*",
    "approve",
    "attest",
    "bind",
    "create",
    "delete",
    "deletecollection",
    "escalate",
    "get",
    "impersonate",
    "list",
    "patch",
    "sign",
    "update",
    "use",
    "watch",
];

/// The verbs of requests for paths.
const PATH_VERBS: &[&str] = &["*", "delete", "get", "head", "options", "patch", "post", "put"];

/// Subresources that people write after the type, in the place of the name.
pub(crate) const SUBRESOURCES: &[&str] = &[
    "approval",
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "finalize",
    "log",
    "portforward",
    "proxy",
    "resize",
    "scale",
    "status",
    "token",
];

/// A question: a request without its user.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    verb: String,
    target: Target,
}

/// The target of the request.
#[derive(Clone, Debug)]
enum Target {
    Path(String),
    Resource { kind: ResourceType, name: String, namespace: String, subresource: String },
}

impl QuestionFlags {
    /// Reads the words, and warns of those that were hardly meant. The words are used as they are then (AU-96). A question that names
    /// no namespace is about the usual one. `find` is asked for a type that is not one of the common ones.
    ///
    /// # Errors
    /// The question makes no sense.
    pub(crate) fn read(
        &self,
        usual_namespace: &str,
        find: impl Fn(&ResourceType) -> Option<ResourceType>,
    ) -> Result<Question, Failure> {
        Ok(Question { verb: self.verb.clone(), target: self.target(usual_namespace, find)? })
    }

    fn target(
        &self,
        usual_namespace: &str,
        find: impl Fn(&ResourceType) -> Option<ResourceType>,
    ) -> Result<Target, Failure> {
        if self.what.starts_with('/') {
            if self.name.is_some() || !self.subresource.is_empty() {
                return Err(Failure::input("a path has neither a name nor a subresource"));
            }
            self.warn_of_verb(PATH_VERBS);
            return Ok(Target::Path(self.what.clone()));
        }
        let (word, name) = match (self.what.split_once('/'), &self.name) {
            (Some((word, "")), None) => {
                return Err(Failure::input(format_args!(
                    "the name after {word}/ is empty: give one, or leave the slash out"
                )));
            }
            (Some((_, in_type)), Some(beside)) => {
                return Err(Failure::input(format_args!(
                    "two names, {in_type:?} and {beside:?}: give one (for a subresource use --subresource)"
                )));
            }
            (Some((word, name)), None) => (word, name.to_owned()),
            (None, name) => (&*self.what, name.clone().unwrap_or_default()),
        };
        if word.is_empty() {
            return Err(Failure::input(
                "the resource type is empty: write VERB TYPE, for instance: get pods",
            ));
        }
        let mut kind = ResourceType::of(word);
        if kind.namespaced.is_none()
            && word != "*"
            && let Some(found) = find(&kind)
        {
            kind = found;
        }
        self.warn_of_verb(RESOURCE_VERBS);
        if kind.namespaced.is_none() && word != "*" {
            eprintln!(
                "warning: unknown resource type {word:?}; using {:?} of API group {:?}",
                kind.resource, kind.group
            );
        }
        if kind.namespaced == Some(false) && self.namespace.is_some() {
            eprintln!("warning: {} are cluster-scoped: --namespace is ignored", kind.resource);
        }
        if self.subresource.is_empty() && SUBRESOURCES.contains(&&*name) {
            eprintln!(
                "warning: this checks an object named {name:?}; for the subresource use --subresource {name}"
            );
        }
        let namespace = match kind.namespaced {
            _ if self.all_namespaces => String::new(),
            // AC-29: for namespaces the API server uses the name as the namespace too.
            Some(false) if kind.is_namespaces() => name.clone(),
            Some(false) => String::new(),
            _ => self.namespace.clone().unwrap_or_else(|| usual_namespace.to_owned()),
        };
        Ok(Target::Resource { kind, name, namespace, subresource: self.subresource.clone() })
    }

    /// Warns about an unknown verb, which nobody is allowed to use, so the answer may be misleading.
    fn warn_of_verb(&self, known: &[&str]) {
        if !known.contains(&&*self.verb) {
            eprintln!("warning: unknown verb {:?}; known verbs are {}", self.verb, known.join(", "));
        }
    }
}

impl Question {
    /// The request of a user.
    pub(crate) fn attributes<'a>(&'a self, user: &'a User) -> Attributes<'a> {
        match &self.target {
            Target::Path(path) => Attributes { user, verb: &self.verb, path, resource: None },
            Target::Resource { kind, name, namespace, subresource } => Attributes {
                user,
                verb: &self.verb,
                path: "",
                resource: Some(ResourceRequest {
                    namespace,
                    group: &kind.group,
                    version: "*",
                    resource: &kind.resource,
                    subresource,
                    name,
                    ..ResourceRequest::default()
                }),
            },
        }
    }

    /// Whether the request is for objects that live in a namespace, as far as the type is known.
    pub(crate) fn is_namespaced(&self) -> bool {
        matches!(&self.target, Target::Resource { kind, .. } if kind.namespaced != Some(false))
    }

    /// The same question about another namespace.
    pub(crate) fn within(&self, other: &str) -> Self {
        let mut question = self.clone();
        if let Target::Resource { namespace, .. } = &mut question.target {
            other.clone_into(namespace);
        }
        question
    }
}
