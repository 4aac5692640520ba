//! Answers the authorization checks of expressions about a write.

use std::collections::HashMap;

use policy::request::ResourceRequest;
use policy::{Attributes, User};
use portcullis_apimachinery::selector::{parse_field_selector, parse_label_selector};

use crate::authz::Authorization;
use crate::http::status::Status;
use crate::http::turn::{self, TooManyOutside};
use crate::match_conditions::checks::{Answer, Checks, Objects, Question, What};

/// The answers about one write. Nothing is asked twice.
pub(super) struct Asker<'a> {
    caller: &'a User,
    authorization: &'a Authorization,
    known: HashMap<Question, Answer>,
}

impl<'a> Asker<'a> {
    /// For a write of this caller.
    pub(super) fn new(caller: &'a User, authorization: &'a Authorization) -> Self {
        Self { caller, authorization, known: HashMap::new() }
    }

    /// Answers the open questions of expressions. Returns whether there were any.
    ///
    /// # Errors
    /// Too many large writes wait for others.
    pub(super) async fn answer(&mut self, checks: &Checks) -> Result<bool, Status> {
        let open = checks.take_open();
        let is_any = !open.is_empty();
        for question in open {
            let answer = match self.known.get(&question) {
                Some(answer) => answer.clone(),
                None => {
                    let asking = asked(&question, self.caller, self.authorization);
                    let answer = turn::outside(asking).await.map_err(too_many)?;
                    self.known.insert(question.clone(), answer.clone());
                    answer
                }
            };
            checks.add(question, answer);
        }
        Ok(is_any)
    }
}

/// Large writes that wait for authorizers are held in memory, so only some may.
fn too_many(_: TooManyOutside) -> Status {
    Status::too_many_requests("too many large writes wait for authorization checks, please try again later")
}

async fn asked(question: &Question, caller: &User, authorization: &Authorization) -> Answer {
    let user = question.user(caller);
    let (fields, labels);
    let (path, resource) = match &question.what {
        What::Path(path) => (&**path, None),
        What::Resource(objects) => {
            let Objects { group, resource, subresource, namespace, name, .. } = objects;
            // A selector that cannot be parsed narrows nothing.
            fields = parse_field_selector(&objects.field_selector).unwrap_or_default();
            labels = parse_label_selector(&objects.label_selector).unwrap_or_default();
            let resource = ResourceRequest {
                namespace,
                group,
                version: "*",
                resource,
                subresource,
                name,
                field_selector: &fields,
                label_selector: &labels,
            };
            ("", Some(resource))
        }
    };
    let attributes = Attributes { user: &user, verb: &question.verb, path, resource };
    let outcome = authorization.ask(&attributes).await;
    Answer { is_allowed: outcome.is_allow(), reason: outcome.reason(&attributes), error: outcome.error }
}
