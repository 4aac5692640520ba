//! Questions that come up within rules that cannot wait: what the verbs `escalate` and `bind` ask, and NodeRestriction.
//!
//! The rules are gone through with the answers known so far; what they ask beyond is no opinion for the moment. Then
//! that is asked, with waiting, and they are gone through again, until nothing new comes up.

use std::cell::RefCell;

use policy::decision::{Authorizer, Decision, Reason};
use policy::{Attributes, ResourceRequest, User};
use portcullis_policy as policy;

use super::{Sequence, Verdict};

/// No rule asks so often.
const ROUNDS: usize = 64;

/// A question that is kept. No rule asks with selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    user: User,
    verb: String,
    path: String,
    /// Namespace, group, version, resource, subresource, name.
    resource: Option<[String; 6]>,
}

impl Question {
    fn of(attributes: &Attributes<'_>) -> Self {
        let resource = attributes.resource.map(|resource| {
            let ResourceRequest { namespace, group, version, resource, subresource, name, .. } = resource;
            [namespace, group, version, resource, subresource, name].map(str::to_owned)
        });
        Self {
            user: attributes.user.clone(),
            verb: attributes.verb.to_owned(),
            path: attributes.path.to_owned(),
            resource,
        }
    }

    fn attributes(&self) -> Attributes<'_> {
        let resource = self.resource.as_ref().map(|parts| {
            let [namespace, group, version, resource, subresource, name] = parts;
            ResourceRequest {
                namespace,
                group,
                version,
                resource,
                subresource,
                name,
                ..ResourceRequest::default()
            }
        });
        Attributes { user: &self.user, verb: &self.verb, path: &self.path, resource }
    }
}

/// One round: what is known, and what came up.
struct Round<'a> {
    known: &'a [(Question, bool)],
    open: RefCell<Vec<Question>>,
}

impl Authorizer for Round<'_> {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let question = Question::of(attributes);
        match self.known.iter().find(|(known, _)| *known == question) {
            Some((_, true)) => Decision::Allow(Reason::None),
            Some((_, false)) => Decision::NO_OPINION,
            None => {
                self.open.borrow_mut().push(question);
                Decision::NO_OPINION
            }
        }
    }
}

/// Goes through rules that ask the configured authorizers.
pub(super) async fn settle<T>(sequence: &Sequence, rules: impl Fn(&dyn Authorizer) -> T) -> T {
    let mut known = Vec::new();
    for round in 1.. {
        let (result, open) = go_through(&known, &rules);
        // What is still open after so many rounds stays without an opinion, which allows nothing.
        if open.is_empty() || round == ROUNDS {
            return result;
        }
        for question in open {
            let allowed = sequence.decide(&question.attributes()).await.verdict == Verdict::Allow;
            known.push((question, allowed));
        }
    }
    go_through(&known, &rules).0
}

fn go_through<T>(known: &[(Question, bool)], rules: impl Fn(&dyn Authorizer) -> T) -> (T, Vec<Question>) {
    let round = Round { known, open: RefCell::default() };
    let result = rules(&round);
    (result, round.open.into_inner())
}
