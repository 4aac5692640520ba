//! Admission webhooks: services that are asked about writes, as ValidatingWebhookConfigurations and
//! MutatingWebhookConfigurations say (BC-5, BC-13, BC-15).
//!
//! Mutating webhooks are asked one after the other, after the plugins of the server and before validation; validating ones all
//! at once, when everything else is done. A webhook that fails refuses the write, unless its configuration says otherwise. The
//! store is never locked meanwhile. Writes of configurations of admission itself are never asked about, so that a webhook
//! that refuses everything can be removed.
//!
//! DIVERGES: reviews (TokenReview, SubjectAccessReview and others), which store nothing, are not asked about. Annotations for
//! the audit log are dropped.

mod call;
mod hook;
mod metrics;
mod phase;
mod verdict;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::join_all;
use kinds::Map;
use kinds::patch::{self, PatchKind};
use kinds::resource::Resource;
use kinds::resources::admission_registration::{
    MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS,
};
use policy::restriction::Operation;
use policy::restriction::reply::{AdmissionReply, AskedReview, ReplyError};

use self::call::Body;
use self::hook::Hook;
pub(crate) use self::metrics::AdmissionWebhookMetrics;
use self::metrics::Ended;
use self::phase::Phase;
use self::verdict::{Verdict, failed, not_dry, refused, unpatchable};
use super::authorizer::Asker;
use super::configured::Configured;
use super::matching::Found;
use super::plugin::Plugin;
use super::question::{Facts, Question, are_alike};
use super::remarks::Remarks;
use super::rules::operation;
use super::versions;
use crate::authz::Authorization;
use crate::http::status::Status;
use crate::http::turn::{self, TooManyOutside};
use crate::match_conditions::Matched;
use crate::match_conditions::checks::Checks;
use crate::registry::admission::AdmissionAttributes;
use crate::registry::meta;

/// The fields of the metadata that a patch cannot change: what was authorized is what is done.
const IDENTITY: [&str; 5] = ["name", "generateName", "namespace", "uid", "resourceVersion"];

/// The plugin that asks mutating webhooks. It has rules and functions of its own.
pub(super) static MUTATING: Plugin = Plugin { name: "MutatingAdmissionWebhook", ..Plugin::NONE };
/// The plugin that asks validating webhooks.
pub(super) static VALIDATING: Plugin = Plugin { name: "ValidatingAdmissionWebhook", ..Plugin::NONE };

/// The webhooks of a server.
pub(crate) struct Webhooks {
    mutating: Configured<Hook>,
    validating: Configured<Hook>,
    metrics: AdmissionWebhookMetrics,
}

impl Webhooks {
    pub(crate) fn new(metrics: AdmissionWebhookMetrics) -> Self {
        Self {
            mutating: Configured::new(&MUTATING_WEBHOOK_CONFIGURATIONS, hook::read),
            validating: Configured::new(&VALIDATING_WEBHOOK_CONFIGURATIONS, hook::read),
            metrics,
        }
    }
}

/// The calls of webhooks for one request.
pub(crate) struct Calls<'a> {
    webhooks: &'a Webhooks,
    authorization: &'a Authorization,
    verdicts: Mutex<Vec<Remembered>>,
    remarks: Remarks,
}

/// The last verdict of a webhook. When the server makes a write again, because of somebody else's, the webhook is asked again
/// only if there is something else to ask.
struct Remembered {
    hook: Arc<Hook>,
    /// Whose review it was.
    uid: String,
    rest: Bytes,
    verdict: Verdict,
}

/// A webhook whose rules, selectors and conditions match a write.
struct Invocation<'r> {
    hook: &'r Arc<Hook>,
    phase: Phase,
    operation: Operation,
    is_dry_run: bool,
    /// Whose review it is.
    uid: &'r str,
    rest: Bytes,
}

/// The first round of mutating webhooks: which were asked, and after how many changes.
#[derive(Default)]
pub(crate) struct Round {
    changes: usize,
    asked: Vec<(Arc<Hook>, usize)>,
}

impl Round {
    /// Whether a webhook has changed the object.
    pub(crate) fn has_changed(&self) -> bool {
        self.changes > 0
    }

    /// Notes that the server's own plugins have changed the object since.
    pub(crate) fn note_change(&mut self) {
        self.changes = self.changes.saturating_add(1);
    }

    /// Whether a webhook is asked again: if it wants to be, and others have changed the object since.
    fn reinvokes(&self, hook: &Arc<Hook>) -> bool {
        let asked = self.asked.iter().rev().find(|(asked, _)| Arc::ptr_eq(asked, hook));
        hook.is_reinvoked && asked.is_some_and(|(_, changes)| *changes < self.changes)
    }
}

/// Webhooks are not asked about what configures admission.
fn is_exempt(resource: &Resource) -> bool {
    resource.group == VALIDATING_WEBHOOK_CONFIGURATIONS.group
}

impl<'a> Calls<'a> {
    pub(crate) fn new(webhooks: &'a Webhooks, authorization: &'a Authorization) -> Self {
        Self { webhooks, authorization, verdicts: Mutex::default(), remarks: Remarks::default() }
    }

    /// The warnings and annotations for the request so far.
    pub(crate) fn remarks(&self) -> &Remarks {
        &self.remarks
    }

    fn verdicts(&self) -> MutexGuard<'_, Vec<Remembered>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the rules of a webhook match a write, whose objects need not be known.
    ///
    /// # Errors
    /// A configuration cannot be read.
    pub(crate) async fn may_match(&self, attributes: &AdmissionAttributes<'_>) -> Result<bool, Status> {
        if is_exempt(attributes.resource) {
            return Ok(false);
        }
        for configured in [&self.webhooks.mutating, &self.webhooks.validating] {
            let hooks = configured.all(attributes.backend).await?;
            if hooks.is_empty() {
                continue;
            }
            let (facts, found) = (Facts::of(attributes), Found::of(attributes));
            if hooks.iter().any(|hook| hook.matching.may_match(facts, &found)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Asks the mutating webhooks in their order, and applies their patches: in the first round all, in the second, which
    /// follows if the first changed something, those that want to see the changes of others.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn mutate(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        first: Option<Round>,
    ) -> Result<Round, Status> {
        let is_again = first.is_some();
        let mut round = first.unwrap_or_default();
        if is_exempt(attributes.resource) {
            return Ok(round);
        }
        let hooks = self.webhooks.mutating.all(attributes.backend).await?;
        if hooks.is_empty() {
            return Ok(round);
        }
        let found = Found::of(attributes);
        let mut asker = Asker::new(attributes.user, self.authorization);
        for hook in hooks {
            if is_again && !round.reinvokes(&hook) {
                continue;
            }
            let facts = Facts::of(attributes);
            let Some(question) = matched(&hook, attributes, facts, &found, &mut asker).await? else {
                continue;
            };
            let rest = question.rest()?;
            let invocation = invocation(&hook, Phase::Mutating, attributes, &question, rest);
            let asking = Box::pin(self.ask(&invocation, attributes));
            let patch = turn::outside(asking).await.map_err(too_many)??;
            if !patch.is_empty() {
                let version = question.version;
                let patched = patched(&hook, facts, &question, version, &patch, attributes.resource)?;
                if let Some(object) = attributes.object.as_deref_mut()
                    && *object != patched
                {
                    *object = patched;
                    round.note_change();
                }
            }
            round.asked.push((hook, round.changes));
        }
        Ok(round)
    }

    /// Asks all validating webhooks at once.
    ///
    /// # Errors
    /// The first refusal, in the order of the webhooks.
    pub(crate) async fn validate(&self, attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
        if is_exempt(attributes.resource) {
            return Ok(());
        }
        let hooks = self.webhooks.validating.all(attributes.backend).await?;
        if hooks.is_empty() {
            return Ok(());
        }
        let (facts, found) = (Facts::of(attributes), Found::of(attributes));
        let mut questions = Vec::new();
        let mut asker = Asker::new(attributes.user, self.authorization);
        for hook in &hooks {
            let question = matched(hook, attributes, facts, &found, &mut asker).await?;
            questions.extend(question.map(|question| (hook, question)));
        }
        // One text for all webhooks that are asked in the same version.
        let mut texts: Vec<(&'static Resource, Bytes)> = Vec::new();
        let mut invocations = Vec::new();
        for (hook, question) in &questions {
            let known = texts.iter().find(|(version, _)| *version == question.version);
            let rest = match known {
                Some((_, rest)) => rest.clone(),
                None => {
                    let rest = question.rest()?;
                    texts.push((question.version, rest.clone()));
                    rest
                }
            };
            invocations.push(invocation(hook, Phase::Validating, attributes, question, rest));
        }
        if invocations.is_empty() {
            return Ok(());
        }
        let asking = invocations.iter().map(|invocation| self.ask(invocation, attributes));
        let verdicts = Box::pin(turn::outside(join_all(asking))).await.map_err(too_many)?;
        verdicts.into_iter().try_for_each(|verdict| verdict.map(drop))
    }

    /// Asks a webhook, or remembers what it said. Returns its patch.
    async fn ask(
        &self,
        invocation: &Invocation<'_>,
        attributes: &AdmissionAttributes<'_>,
    ) -> Result<Vec<u8>, Status> {
        let Invocation { hook, phase, .. } = *invocation;
        let metrics = &self.webhooks.metrics;
        let about = (&*hook.name, phase, operation(invocation.operation));
        if let Some(verdict) = self.remembered(invocation) {
            return verdict.into_patch();
        }
        if invocation.is_dry_run && !hook.may_run_dry {
            return Err(not_dry(&hook.name));
        }
        let started = Instant::now();
        let (ended, answered) = match asked(invocation, attributes).await {
            Ok(reply) => {
                self.remarks.warn(reply.warnings);
                match reply.is_allowed {
                    true => (Ended::Allowed, Ok(Verdict::Allowed(reply.patch))),
                    false => {
                        let status = refused(&hook.name, reply.status);
                        (Ended::Refused(status.code().as_u16()), Ok(Verdict::Refused(status)))
                    }
                }
            }
            Err(why) => (Ended::Failed, Err(why)),
        };
        metrics.called(about, ended, started.elapsed());
        let verdict = match answered {
            Ok(verdict) => verdict,
            Err(why) if hook.ignores_failure => {
                tracing::warn!(webhook = hook.name, %why, "an admission webhook failed: the write goes on");
                metrics.failed_open(&hook.name, phase);
                return Ok(Vec::new());
            }
            Err(why) => {
                tracing::warn!(webhook = hook.name, %why, "an admission webhook failed: the write is refused");
                metrics.refused(about, ended);
                return Err(failed(&hook.name, &why));
            }
        };
        metrics.refused(about, ended);
        self.remember(invocation, verdict.clone());
        verdict.into_patch()
    }

    fn remembered(&self, invocation: &Invocation<'_>) -> Option<Verdict> {
        let verdicts = self.verdicts();
        let known = verdicts.iter().find(|known| Arc::ptr_eq(&known.hook, invocation.hook))?;
        let is_same = known.uid == invocation.uid && are_alike(&known.rest, &invocation.rest);
        is_same.then(|| known.verdict.clone())
    }

    fn remember(&self, invocation: &Invocation<'_>, verdict: Verdict) {
        let (hook, uid, rest) =
            (Arc::clone(invocation.hook), invocation.uid.to_owned(), invocation.rest.clone());
        let mut verdicts = self.verdicts();
        verdicts.retain(|known| !Arc::ptr_eq(&known.hook, &hook));
        verdicts.push(Remembered { hook, uid, rest, verdict });
    }
}

/// Large writes that wait for webhooks are held in memory, so only some may.
fn too_many(_: TooManyOutside) -> Status {
    Status::too_many_requests("too many large writes wait for admission webhooks, please try again later")
}

fn invocation<'r>(
    hook: &'r Arc<Hook>,
    phase: Phase,
    attributes: &AdmissionAttributes<'_>,
    question: &'r Question<'_>,
    rest: Bytes,
) -> Invocation<'r> {
    let about = question.old().or(question.object());
    Invocation {
        hook,
        phase,
        operation: attributes.operation,
        is_dry_run: attributes.options.is_dry_run(),
        uid: about.map_or("", |object| meta::text(object, "uid")),
        rest,
    }
}

/// What a webhook is asked about a write; nothing if it is not asked.
///
/// # Errors
/// The match conditions failed, and so does the webhook; 404 if the namespace of the write is not there.
async fn matched<'r>(
    hook: &Hook,
    attributes: &'r AdmissionAttributes<'_>,
    facts: Facts<'r, '_>,
    found: &Found,
    asker: &mut Asker<'_>,
) -> Result<Option<Question<'r>>, Status> {
    let Some(question) = hook.matching.matched(attributes, facts, found).await? else { return Ok(None) };
    let matched = match &hook.conditions {
        Ok(conditions) if conditions.is_empty() => Matched::Yes,
        Ok(conditions) => {
            let checks = Arc::new(Checks::of_conditions());
            loop {
                let matched = conditions.evaluate(&question.write(), &checks);
                if !asker.answer(&checks).await? {
                    break matched;
                }
            }
        }
        Err(error) => Matched::Failed(error.clone()),
    };
    match matched {
        Matched::Yes => Ok(Some(question)),
        Matched::No { .. } => Ok(None),
        Matched::Failed(error) if hook.ignores_failure => {
            tracing::warn!(webhook = hook.name, %error, "match conditions failed: the webhook is not asked");
            Ok(None)
        }
        Matched::Failed(error) => {
            tracing::warn!(webhook = hook.name, %error, "match conditions failed: the write is refused");
            Err(attributes.forbidden(&error, Vec::new()))
        }
    }
}

/// The review with this uid.
fn body(api_version: &str, uid: &str, rest: &Bytes) -> Body {
    let head =
        format!(r#"{{"kind":"AdmissionReview","apiVersion":"{api_version}","request":{{"uid":"{uid}","#);
    Body { head: head.into(), rest: rest.clone() }
}

/// Calls a webhook and reads its answer.
///
/// # Errors
/// Why the webhook failed.
async fn asked(
    invocation: &Invocation<'_>,
    attributes: &AdmissionAttributes<'_>,
) -> Result<AdmissionReply, String> {
    let Invocation { hook, phase, .. } = *invocation;
    let call = |why: String| format!("failed to call webhook: {why}");
    let caller = hook.caller.as_ref().map_err(|why| call(why.clone()))?;
    let api_version = hook.api_version.clone().map_err(call)?;
    let uid = meta::new_uid().map_err(|status| call(status.message().to_owned()))?;
    let body = body(api_version, &uid, &invocation.rest);
    let answer = caller.post(attributes.backend, body).await.map_err(call)?;
    let question = AskedReview { api_version, uid: &uid, may_patch: phase == Phase::Mutating };
    AdmissionReply::read(&answer, question).map_err(|error| match error {
        ReplyError::Unreadable(_) => call(error.to_string()),
        ReplyError::Invalid(_) => error.to_string(),
    })
}

/// The object with a patch of a webhook.
///
/// # Errors
/// The patch cannot be applied, or its result is not the same object.
fn patched(
    hook: &Hook,
    facts: Facts<'_, '_>,
    question: &Question<'_>,
    version: &'static Resource,
    patch: &[u8],
    resource: &'static Resource,
) -> Result<Map, Status> {
    let refuse = |why: &str| unpatchable(&hook.name, why);
    let object = question.object().filter(|_| facts.can_be_patched());
    let object = object.ok_or_else(|| refuse("a write of this kind has no object that can be changed"))?;
    let patched = patch::apply(PatchKind::Json, object.clone(), patch, version.schema)
        .map_err(|error| refuse(&error.to_string()))?;
    for field in IDENTITY {
        if meta::text(&patched, field) != meta::text(object, field) {
            return Err(refuse(&format!("metadata.{field} must not change")));
        }
    }
    versions::read(patched, version, resource).map_err(|status| refuse(status.message()))
}

impl Verdict {
    fn into_patch(self) -> Result<Vec<u8>, Status> {
        match self {
            Self::Allowed(patch) => Ok(patch),
            Self::Refused(status) => Err(status),
        }
    }
}
