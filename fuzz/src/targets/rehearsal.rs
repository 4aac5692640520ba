//! Audit events: each counts once, what cannot be judged is unknown, and a report is small.

use std::hash::RandomState;
use std::sync::LazyLock;

use portcullis_policy::chain::Chain;
use portcullis_policy::rehearsal::{Change, Lost, Rehearsal, Report, Summary, each_event};
use portcullis_policy::{Engine, EngineConfig, FeatureGates, Mode};

pub(super) const EVENT: &[&str] = &[
    "\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",",
    "\"kind\":\"EventList\",\"apiVersion\":\"audit.k8s.io/v1\",\"items\":[",
    "\"auditID\":\"a\",",
    "\"stage\":\"ResponseComplete\",",
    "\"stage\":\"ResponseStarted\",",
    "\"stage\":\"Panic\",",
    "\"verb\":\"list\",",
    "\"requestURI\":\"/api/v1/namespaces/a/secrets/b\",",
    "\"requestURI\":\"/api/v1/pods?fieldSelector=spec.nodeName%3Dn&labelSelector=a+in+(b)\",",
    "\"user\":{\"username\":\"system:node:n\",\"groups\":[\"system:nodes\"]},",
    "\"impersonatedUser\":{\"username\":\"b\",\"uid\":\"c\",\"groups\":[\"d\"],\"extra\":{\"e\":[\"f\"]}},",
    "\"authenticationMetadata\":{\"impersonationConstraint\":\"impersonate:user-info\"},",
    "\"objectRef\":{\"resource\":\"secrets\",\"namespace\":\"a\",\"name\":\"b\",\"apiVersion\":\"v1\"},",
    "\"responseStatus\":{\"code\":401},",
    "\"annotations\":{\"authorization.k8s.io/decision\":\"allow\"},",
    "\"authorization.k8s.io/reason\":\"internal error\",",
    "system:masters",
    "...TRUNCATED",
    "null",
    "{}",
];

/// The chains of a mode that decides everything alike, and of Node and RBAC without objects.
static CHAINS: LazyLock<[Chain; 3]> = LazyLock::new(|| {
    let chain = |modes: &[Mode]| {
        let config = EngineConfig { modes: modes.to_vec(), ..EngineConfig::default() };
        Engine::from_json(config, []).expect("the modes are right").chain().clone().with_masters()
    };
    [chain(&[Mode::AlwaysAllow]), chain(&[Mode::AlwaysDeny]), chain(&[Mode::Node, Mode::Rbac])]
});

pub(super) fn audit_event(input: &[u8]) -> bool {
    let mut is_judged = false;
    for chain in CHAINS.iter().map(Some).chain([None]) {
        let mut rehearsal = Rehearsal::new(FeatureGates::default(), RandomState::new());
        let mut events = 0;
        let read = each_event(input, &mut |event| {
            events += 1;
            rehearsal.take(event, chain);
        });
        let tally = rehearsal.tally();
        let changed: u64 = Change::ALL.map(|change| tally.count(change)).iter().sum();
        let none = tally.no_decisions;
        let no_decisions = none.early + none.repeated + none.not_authenticated + none.not_asked;
        assert_eq!(tally.requests.count + no_decisions, events, "every event counts once");
        assert_eq!(tally.unchanged + changed + tally.count_unknown(), tally.requests.count);
        assert!(chain.is_some() || tally.unchanged + changed == 0, "nobody knows the cluster");
        let report = Report::new(tally, Lost::default());
        let nothing = report.summary() == Summary::NothingDiffers;
        assert_eq!(nothing, tally.unchanged > 0 && tally.unchanged == tally.requests.count);
        let size = serde_json::to_vec(&report).expect("a report can be written").len();
        assert!(size < 16 * 1024 * (2 + tally.rows.len() + tally.unknown.len()), "{size}");
        let table = report.table(Some(80), true).to_string();
        assert!(table.chars().all(|c| c == '\n' || !c.is_control()), "a terminal obeys nobody");
        is_judged |= read.is_ok() && tally.unchanged + changed > 0;
    }
    is_judged
}
