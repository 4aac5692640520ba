//! Mode Deny: deny rules, over what is known of namespaces, and the scope of node-scoped accounts (BC-30, BC-32).
//!
//! Fails closed: a namespace whose labels are not known counts as selected by every selector, and an object of which it is not
//! known to which node it belongs is one of another node.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::namespaces::Namespaces;
use super::scope::NodeScope;
use super::subject::Known;
use super::{Certainty, DenyRules, Rule};
use crate::decision::{Authorizer, Decision, Reason};
use crate::graph::Graph;
use crate::request::{Attributes, User};

/// Deny rules that can be replaced while requests are decided. A request is decided by the rules that it began with.
#[derive(Debug)]
pub struct LiveRules(ArcSwap<DenyRules>);

impl LiveRules {
    /// Rules that are in force until they are replaced.
    pub fn new(rules: DenyRules) -> Self {
        Self(ArcSwap::from_pointee(rules))
    }

    /// The rules in force.
    pub fn current(&self) -> Arc<DenyRules> {
        self.0.load_full()
    }

    /// Puts other rules in force.
    pub fn replace(&self, rules: DenyRules) {
        self.0.store(Arc::new(rules));
    }
}

/// How a request is denied to somebody of whom not everything is known (BC-30).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Whatever else is true.
    Certain,
    /// If this rule selects the namespace, whose labels are not known.
    IfSelected(String),
    /// Unless this rule excepts them by what is not known of them.
    UnlessExcepted(String),
    /// Unless the token is bound to a pod on the node of the object (BC-32).
    UnlessOnNode,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct DenyAuthorizer {
    rules: Option<Arc<LiveRules>>,
    scope: Option<Arc<NodeScope>>,
    /// None: nothing is known of namespaces.
    pub(super) namespaces: Option<Arc<Namespaces>>,
    /// None: nothing is known of which object belongs to which node.
    graph: Option<Arc<Graph>>,
    /// Whether writes of roles and bindings are compared with the rules (BC-31).
    checks_escalation: bool,
}

impl DenyAuthorizer {
    /// Decides by these rules and this scope. Which of them there are is the caller's choice; without both nothing is denied.
    pub fn new(
        rules: Option<Arc<LiveRules>>,
        scope: Option<Arc<NodeScope>>,
        namespaces: Arc<Namespaces>,
        graph: Arc<Graph>,
    ) -> Self {
        Self { rules, scope, namespaces: Some(namespaces), graph: Some(graph), checks_escalation: false }
    }

    /// Turns on the escalation check over deny rules.
    #[must_use]
    pub fn checking_escalation(self, checks_escalation: bool) -> Self {
        Self { checks_escalation, ..self }
    }

    /// The rules in force, if there is a file of rules.
    pub fn rules(&self) -> Option<Arc<DenyRules>> {
        self.rules.as_ref().map(|rules| rules.current())
    }

    /// Whether the rights of a user end at its node (BC-32).
    pub fn is_node_scoped(&self, user: &User) -> bool {
        self.scope.as_ref().is_some_and(|scope| scope.is_scoped(user))
    }

    /// Whether writes of roles and bindings are compared with the rules.
    pub fn checks_escalation(&self) -> bool {
        self.checks_escalation
    }

    /// The rules with which writes of roles are compared, if that is on.
    pub(super) fn rules_for_escalation(&self) -> Option<&LiveRules> {
        self.rules.as_deref().filter(|_| self.checks_escalation)
    }

    /// The labels of namespaces, as far as they are known.
    pub(super) fn known_namespaces(&self) -> Option<&Namespaces> {
        self.namespaces.as_deref()
    }

    /// The same rules and scope for a time when objects are not known.
    #[must_use]
    pub fn blind(&self) -> Self {
        Self { namespaces: None, graph: None, ..self.clone() }
    }

    /// How a request is denied to somebody of whom so much is known, if it is denied (BC-30). Nothing is known of the token.
    pub fn denial(&self, attributes: &Attributes<'_>, known: Known) -> Option<Denial> {
        if let Some(rules) = self.rules() {
            let namespaces = self.namespaces.as_deref();
            let denial = |rule: &Rule| {
                let certainty = rule.denies(attributes, namespaces)?;
                let name = || rule.name.to_string();
                Some(match certainty {
                    _ if rule.may_except(known) => Denial::UnlessExcepted(name()),
                    Certainty::NamespaceUnknown => Denial::IfSelected(name()),
                    Certainty::Known => Denial::Certain,
                })
            };
            // Most subjects are denied nothing, which the index tells at once.
            if rules.first(attributes, namespaces).is_some() {
                let mut denials = rules.rules.iter().filter_map(denial);
                let first = denials.next();
                return denials.find(|denial| *denial == Denial::Certain).or(first);
            }
        }
        let scope = self.scope.as_ref().filter(|scope| scope.is_scoped(attributes.user))?;
        scope.denies(attributes, self.graph.as_deref()).map(|_| Denial::UnlessOnNode)
    }

    /// The names of the rules that deny a request to some, or may: whom they bind plays no part.
    pub fn rules_about(&self, attributes: &Attributes<'_>) -> Vec<String> {
        let Some(rules) = self.rules() else { return Vec::new() };
        let namespaces = self.namespaces.as_deref();
        let is_about = |rule: &&Rule| {
            rule.is_about(attributes)
                && attributes.resource.as_ref().is_none_or(|request| {
                    rule.is_in_namespace(attributes.verb, request, namespaces).is_some()
                })
        };
        rules.rules.iter().filter(is_about).map(|rule| rule.name.to_string()).collect()
    }

    /// Explains a decision.
    pub fn explain(&self, attributes: &Attributes<'_>) -> String {
        if let Decision::Deny(reason) = self.authorize(attributes) {
            return format!("{}: no other authorizer is asked", reason.render(attributes));
        }
        let mut lines = Vec::new();
        if let Some(rules) = &self.rules {
            lines.push(format!("none of the {} deny rules matches", rules.current().count()));
        }
        if let Some(scope) = &self.scope {
            lines.push(scope.explain(attributes).to_owned());
        }
        lines.join("\n")
    }
}

impl Authorizer for DenyAuthorizer {
    /// Deny, with the first rule that matches, or no opinion. Never Allow.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if let Some(rules) = &self.rules
            && let Some((rule, certainty)) = rules.0.load().first(attributes, self.namespaces.as_deref())
        {
            let reason = Arc::clone(&rule.reason);
            return Decision::Deny(match certainty {
                Certainty::Known => Reason::Told(reason),
                Certainty::NamespaceUnknown => Reason::NamespaceUnknown(reason),
            });
        }
        let denied = self.scope.as_ref().and_then(|scope| scope.denies(attributes, self.graph.as_deref()));
        denied.map_or(Decision::NO_OPINION, Decision::Deny)
    }
}
