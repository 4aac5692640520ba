//! What all edges are made from: the state, the rights in it, and what follows from the flags of the API servers.

use std::sync::Arc;

use super::shared::Shared;
use crate::audit::reach::universe::{Id, Universe, VertexType};
use crate::audit::rights::{Grants, Verbs};
use crate::audit::state::{PodFacts, State};

/// See the module.
pub(super) struct Context<'a> {
    pub(super) state: &'a State,
    pub(super) grants: &'a Grants,
    pub(super) universe: &'a Universe,
    pub(super) shared: Arc<Shared<'a>>,
    pub(super) admin: Id,
    /// The verbs that open a WebSocket into a container (KA-83).
    pub(super) exec_verbs: Verbs,
    pub(super) has_node_restriction: bool,
    audiences: Vec<String>,
    is_lax_somewhere: bool,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        state: &'a State,
        grants: &'a Grants,
        universe: &'a Universe,
        shared: Shared<'a>,
    ) -> Self {
        let servers = state.api_servers();
        let get = if servers.may_get_containers() { Verbs::GET } else { Verbs::default() };
        let mut context = Self {
            state,
            grants,
            universe,
            shared: Arc::new(shared),
            admin: universe.find(VertexType::Admin, "", "").unwrap_or_default(),
            exec_verbs: Verbs::CREATE.with(get),
            has_node_restriction: !servers.lack_node_restriction(),
            audiences: servers.audiences().iter().map(|audience| (*audience).to_owned()).collect(),
            is_lax_somewhere: universe.namespaces().is_empty(),
        };
        context.is_lax_somewhere |=
            universe.namespaces().iter().any(|namespace| context.is_lax(Some(namespace)));
        context
    }

    /// The same with other permissions.
    pub(super) fn with_grants<'b>(&self, grants: &'b Grants) -> Context<'b>
    where
        'a: 'b,
    {
        Context { grants, shared: Arc::clone(&self.shared), audiences: self.audiences.clone(), ..*self }
    }

    pub(super) fn node(&self, name: &str) -> Option<Id> {
        self.universe.find(VertexType::Node, "", name)
    }

    /// Whether nothing keeps a new pod in a namespace, or in some namespace, from its node (E11).
    pub(super) fn is_lax(&self, namespace: Option<&str>) -> bool {
        match namespace {
            None => self.is_lax_somewhere,
            Some(namespace) => self.state.facts().namespaces.get(namespace) != Some(&true),
        }
    }

    /// Whether an API token is in the containers of a pod (AU-69). Mirror pods have none.
    pub(super) fn has_api_token(&self, pod: &PodFacts) -> bool {
        let audiences: Vec<&str> = self.audiences.iter().map(String::as_str).collect();
        !pod.is_mirror && self.state.has_api_token(pod, &audiences)
    }
}
