//! ValidatingAdmissionPolicy: refuses writes, warns of them, or notes them in the audit log, as the expressions of
//! ValidatingAdmissionPolicies and their bindings say.
//!
//! Policies are applied when everything but the validating webhooks is done. Writes of policies and of bindings are never
//! looked at, so that a policy that refuses everything can be removed; those of configurations of webhooks are. Reviews store
//! nothing, and are not looked at either.
//!
//! DIVERGES: what the server's own controllers write is not looked at.

mod authorize;
mod decision;
mod metrics;
mod params;
mod policy;

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::available_parallelism;

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::admission_registration::{
    MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
};
use tokio::task::spawn_blocking;

pub(super) use self::authorize::check_params;
use self::decision::Decisions;
pub(crate) use self::metrics::PolicyMetrics;
use self::params::Params;
use self::policy::{Binding, Policy};
use super::authorizer::Asker;
use super::configured::Configured;
use super::matching::Found;
use super::plugin::Plugin;
use super::question::{Facts, Question};
use super::remarks::Remarks;
use crate::authz::Authorization;
use crate::http::account::Account;
use crate::http::fair_queue::{FairQueue, Size};
use crate::http::status::Status;
use crate::match_conditions::checks::Checks;
use crate::match_conditions::policies::{Budget, Inputs, Judgement};
use crate::registry::admission::AdmissionAttributes;

/// The plugin. It has functions of its own.
pub(super) static PLUGIN: Plugin = Plugin { name: "ValidatingAdmissionPolicy", ..Plugin::NONE };

/// Whether objects of this kind say which writes are refused or changed.
fn is_policy(resource: &Resource) -> bool {
    [
        &MUTATING_ADMISSION_POLICIES,
        &MUTATING_ADMISSION_POLICY_BINDINGS,
        &VALIDATING_ADMISSION_POLICIES,
        &VALIDATING_ADMISSION_POLICY_BINDINGS,
    ]
    .iter()
    .any(|kind| kind.group == resource.group && kind.plural == resource.plural)
}

/// The policies of a server.
pub(crate) struct Policies {
    metrics: PolicyMetrics,
    policies: Configured<Policy>,
    bindings: Configured<Binding>,
    /// Seats for evaluating expressions: one for every two processors, shared fairly among accounts.
    seats: Arc<FairQueue>,
}

impl Policies {
    /// The policies that are stored. What they do is counted in these metrics.
    pub(crate) fn new(metrics: PolicyMetrics) -> Self {
        let seats = available_parallelism().map_or(1, |processors| processors.get().div_ceil(2));
        // What waits is bounded by the places of writes.
        let size = Size { seats, seats_of_account: seats, waiting_of_account: usize::MAX };
        Self {
            metrics,
            seats: FairQueue::new(size),
            policies: Configured::new(&VALIDATING_ADMISSION_POLICIES, policy::read_policy),
            bindings: Configured::new(&VALIDATING_ADMISSION_POLICY_BINDINGS, policy::read_binding),
        }
    }
}

/// A policy and a binding that are about a write.
struct Bound {
    policy: Arc<Policy>,
    binding: Arc<Binding>,
    /// The inputs of the evaluation, or why there are none.
    with: Result<With, String>,
}

/// The inputs of the evaluation of a policy.
struct With {
    /// The place of the inputs.
    inputs: usize,
    /// The parameters, each in turn. None for null.
    params: Option<Params>,
}

/// The inputs of a write, by the version of the kind in which it is shown.
#[derive(Default)]
struct AllInputs {
    versions: Vec<&'static Resource>,
    inputs: Vec<Inputs>,
}

impl AllInputs {
    fn of(&mut self, question: &Question<'_>, namespace: Option<&Map>) -> usize {
        let known = self.versions.iter().position(|version| *version == question.version);
        known.unwrap_or_else(|| {
            self.versions.push(question.version);
            self.inputs.push(Inputs::of(&question.write(), namespace));
            self.inputs.len().saturating_sub(1)
        })
    }
}

impl Policies {
    /// Whether there are bindings, and the rules of a policy match a write, whose objects need not be known.
    ///
    /// # Errors
    /// A policy or a binding cannot be read.
    pub(super) async fn may_match(&self, attributes: &AdmissionAttributes<'_>) -> Result<bool, Status> {
        if is_policy(attributes.resource) || self.bindings.all(attributes.backend).await?.is_empty() {
            return Ok(false);
        }
        let policies = self.policies.all(attributes.backend).await?;
        let (facts, found) = (Facts::of(attributes), Found::of(attributes));
        Ok(policies.iter().any(|policy| policy.matching.may_match(facts, &found)))
    }

    /// Applies all policies to a write.
    ///
    /// # Errors
    /// The first refusal, in the order of the policies and of their bindings.
    pub(super) async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        authorization: &Authorization,
        remarks: &Remarks,
    ) -> Result<(), Status> {
        if is_policy(attributes.resource) {
            return Ok(());
        }
        let bindings = self.bindings.all(attributes.backend).await?;
        if bindings.is_empty() {
            return Ok(());
        }
        let policies = self.policies.all(attributes.backend).await?;
        let mut by_policy = HashMap::<&str, Vec<&Arc<Binding>>>::new();
        for binding in &bindings {
            by_policy.entry(&binding.policy).or_default().push(binding);
        }
        let (facts, found) = (Facts::of(attributes), Found::of(attributes));
        let (mut bound, mut inputs) = (Vec::new(), AllInputs::default());
        for policy in &policies {
            let Some(bindings) = by_policy.get(&*policy.name) else { continue };
            let Some(question) = policy.matching.matched(attributes, facts, &found).await? else { continue };
            for binding in bindings {
                if let Some(matching) = &binding.matching
                    && matching.matched(attributes, facts, &found).await?.is_none()
                {
                    continue;
                }
                let with = match params(policy, binding, attributes, facts.namespace()).await? {
                    Ok(params) => {
                        // A namespace is in none.
                        let namespace = match facts.namespace() {
                            name if name.is_empty() || attributes.resource.is_namespace => None,
                            name => Some(found.namespace(attributes, name).await?),
                        };
                        Ok(With { inputs: inputs.of(&question, namespace), params })
                    }
                    Err(why) => Err(why),
                };
                bound.push(Bound { policy: Arc::clone(policy), binding: Arc::clone(binding), with });
            }
        }
        if bound.is_empty() {
            return Ok(());
        }
        let bound = self.judged(bound, inputs.inputs, attributes, authorization).await?;
        decide(bound, attributes, remarks, &self.metrics)
    }
}

/// The evaluation of a policy for a binding.
struct Judging {
    bound: Bound,
    budget: Budget,
    checks: Arc<Checks>,
    judged: Option<Judged>,
}

impl Judging {
    fn new(bound: Bound) -> Self {
        let checks = Arc::new(Checks::of_policy());
        Self { bound, budget: Budget::default(), checks, judged: None }
    }

    /// Evaluates, unless the result is known. What is done again is charged again.
    fn evaluate(&mut self, inputs: &[Inputs]) {
        if self.judged.is_none() {
            self.judged = Some(judge(&self.bound, inputs, &mut self.budget, &self.checks));
        }
    }

    /// The result. A policy that was not evaluated is never left out.
    fn result(self) -> (Bound, Judged) {
        let judged = self.judged.unwrap_or_else(|| Judged::Misconfigured("it was not evaluated".to_owned()));
        (self.bound, judged)
    }
}

impl Policies {
    /// Evaluates the policies, and again those whose checks the authorizers then have answered. Each time answers at least one more
    /// check of a policy, and these are few.
    async fn judged(
        &self,
        bound: Vec<Bound>,
        inputs: Vec<Inputs>,
        attributes: &AdmissionAttributes<'_>,
        authorization: &Authorization,
    ) -> Result<Vec<(Bound, Judged)>, Status> {
        let inputs = Arc::new(inputs);
        let mut asker = Asker::new(attributes.user, authorization);
        let mut all: Vec<Judging> = bound.into_iter().map(Judging::new).collect();
        loop {
            all = self.evaluated(all, Arc::clone(&inputs), attributes).await?;
            let mut is_done = true;
            for judging in &mut all {
                if asker.answer(&judging.checks).await? {
                    judging.judged = None;
                    is_done = false;
                }
            }
            if is_done {
                return Ok(all.into_iter().map(Judging::result).collect());
            }
        }
    }

    /// Evaluates policies apart from the threads that serve requests. The seat is kept until that is done, also when nobody
    /// waits for it any more.
    async fn evaluated(
        &self,
        mut all: Vec<Judging>,
        inputs: Arc<Vec<Inputs>>,
        attributes: &AdmissionAttributes<'_>,
    ) -> Result<Vec<Judging>, Status> {
        let seat = self.seats.enter(Account::of_user(attributes.user)).await;
        let seat = seat.map_err(|_| Status::too_many_requests("too many writes wait for policies"))?;
        let judging = spawn_blocking(move || {
            all.iter_mut().for_each(|judging| judging.evaluate(&inputs));
            drop(seat);
            all
        });
        judging.await.map_err(Status::internal)
    }
}

/// The parameters of a policy for a write; none for a policy or a binding without.
///
/// # Errors
/// The outer error is that of the store. The inner one says why they cannot be found.
async fn params(
    policy: &Policy,
    binding: &Binding,
    attributes: &AdmissionAttributes<'_>,
    namespace: &str,
) -> Result<Result<Option<Params>, String>, Status> {
    let (Some(kind), Some(reference)) = (&policy.texts.param_kind, &binding.params) else {
        return Ok(Ok(None));
    };
    Ok(Params::of(kind, reference, attributes, namespace).await?.map(Some))
}

/// Decides.
fn decide(
    bound: Vec<(Bound, Judged)>,
    attributes: &AdmissionAttributes<'_>,
    remarks: &Remarks,
    metrics: &PolicyMetrics,
) -> Result<(), Status> {
    let mut decisions = Decisions::new(metrics);
    let mut rest = bound.into_iter().peekable();
    while let Some((Bound { policy, binding, .. }, judged)) = rest.next() {
        let (policy, binding) = (&policy, &binding);
        match judged {
            Judged::Misconfigured(why) => decisions.misconfigured(policy, binding, &why),
            Judged::Uncompiled(why) => decisions.uncompiled(policy, binding, &why),
            Judged::All(all) => {
                all.into_iter().for_each(|judgement| decisions.judged(policy, binding, judgement));
            }
        }
        if rest.peek().is_none_or(|(next, _)| !Arc::ptr_eq(&next.policy, policy)) {
            decisions.finish(policy, remarks);
        }
    }
    decisions.outcome(attributes, remarks)
}

/// The results of a policy, one for each of its parameters.
enum Judged {
    Misconfigured(String),
    Uncompiled(String),
    All(Vec<Judgement>),
}

fn judge(bound: &Bound, inputs: &[Inputs], budget: &mut Budget, checks: &Arc<Checks>) -> Judged {
    let With { inputs: place, params } = match &bound.with {
        Ok(with) => with,
        Err(why) => return Judged::Misconfigured(why.clone()),
    };
    let program = match &bound.policy.program {
        Ok(program) => program,
        Err(why) => return Judged::Uncompiled(why.clone()),
    };
    let Some(inputs) = inputs.get(*place) else {
        return Judged::Misconfigured("the write cannot be shown".to_owned());
    };
    let judged = match params {
        None => Ok(vec![program.judge(inputs, None, budget, checks)]),
        Some(params) => params.each(|params| program.judge(inputs, Some(params), budget, checks)),
    };
    judged.map_or_else(Judged::Misconfigured, Judged::All)
}
