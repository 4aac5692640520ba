//! The variable `authorizer` of expressions about writes. Functions, types and messages are those that Kubernetes documents for
//! its CEL library `kubernetes.authz`.

#![cfg(feature = "cel")]

use std::sync::Arc;

use portcullis_kinds::Map;
use portcullis_policy::User;
use portcullis_server::match_conditions::checks::{Answer, Checks, Objects, Question, What};
use portcullis_server::match_conditions::policies::{Budget, Checked, Inputs, Judgement, Program, Texts};
use portcullis_server::match_conditions::{AdmissionConditions, Matched, Write};
use serde_json::{Value, json};

fn map(value: &Value) -> &Map {
    value.as_object().unwrap()
}

/// An update of a status by alice.
fn request() -> Value {
    json!({
        "requestResource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "requestSubResource": "status",
        "namespace": "team",
        "name": "web",
        "userInfo": {"username": "alice"},
    })
}

fn allowed(is_allowed: bool) -> Answer {
    Answer { is_allowed, reason: String::new(), error: None }
}

/// The outcome of a condition about a write of this object, and what it asks, one round after the other.
fn asked(
    text: &str,
    object: &Value,
    answer: impl Fn(&Question) -> Answer,
) -> Result<(Matched, Vec<Vec<Question>>), String> {
    let conditions =
        AdmissionConditions::compile(&[text.to_owned()]).map_err(|faults| faults[0].1.clone())?;
    let (request, checks) = (request(), Arc::new(Checks::of_conditions()));
    let write = Write { request: map(&request), object: object.as_object(), old: None };
    let mut rounds = Vec::new();
    loop {
        let matched = conditions.evaluate(&write, &checks);
        let open = checks.take_open();
        if open.is_empty() {
            return Ok((matched, rounds));
        }
        for question in &open {
            checks.add(question.clone(), answer(question));
        }
        rounds.push(open);
    }
}

fn path(path: &str) -> What {
    What::Path(path.to_owned())
}

fn pods() -> Objects {
    Objects { resource: "pods".to_owned(), ..Objects::default() }
}

#[test]
fn calls_put_together_what_is_asked() {
    let text = |text: &str| text.to_owned();
    let deployments = || Objects { group: text("apps"), resource: text("deployments"), ..Objects::default() };
    let whole = Objects {
        subresource: text("scale"),
        namespace: text("test"),
        name: text("backend"),
        field_selector: text("metadata.name=a"),
        label_selector: text("app in (a,b)"),
        ..deployments()
    };
    let of_request =
        Objects { subresource: text("status"), namespace: text("team"), name: text("web"), ..deployments() };
    let account = Some((text("default"), text("robot")));
    for (expression, account, what, verb) in [
        ("authorizer.path('/healthz').check('get')", None, path("/healthz"), "get"),
        ("authorizer.path('healthz').check('GET')", None, path("healthz"), "GET"),
        ("authorizer.group('').resource('pods').check('list')", None, What::Resource(pods()), "list"),
        (
            "authorizer.group('apps').resource('deployments').check('*')",
            None,
            What::Resource(deployments()),
            "*",
        ),
        (
            "authorizer.group('apps').resource('deployments').subresource('scale').namespace('test').name('backend')\
             .fieldSelector('metadata.name=a').labelSelector('app in (a,b)').check('get')",
            None,
            What::Resource(whole),
            "get",
        ),
        // The last call counts, and an empty text is none.
        (
            "authorizer.group('').resource('pods').name('a').name('').namespace('b').namespace('').check('get')",
            None,
            What::Resource(pods()),
            "get",
        ),
        ("authorizer.requestResource.check('use')", None, What::Resource(of_request.clone()), "use"),
        (
            "authorizer.requestResource.subresource('').name('').check('use')",
            None,
            What::Resource(Objects { subresource: String::new(), name: String::new(), ..of_request }),
            "use",
        ),
        (
            "authorizer.serviceAccount('default', 'robot').group('').resource('pods').check('get')",
            account.clone(),
            What::Resource(pods()),
            "get",
        ),
        ("authorizer.serviceAccount('default', 'robot').path('/x').check('get')", account, path("/x"), "get"),
    ] {
        let expected = Question { account, what, verb: verb.to_owned() };
        for is_allowed in [true, false] {
            let text = format!("{expression}.allowed()");
            let (matched, rounds) = asked(&text, &json!({}), |_| allowed(is_allowed)).unwrap();
            assert_eq!(rounds, [vec![expected.clone()]], "{text}");
            let outcome = if is_allowed { Matched::Yes } else { Matched::No { failed: false } };
            assert_eq!(matched, outcome, "{text}");
        }
    }
}

#[test]
fn a_decision_tells_reason_and_error() {
    let check = "authorizer.group('').resource('pods').check('get')";
    let failed = Answer { is_allowed: false, reason: "why".to_owned(), error: Some("timeout".to_owned()) };
    for (text, answer) in [
        (
            format!("{check}.reason() == 'because' && !{check}.errored() && {check}.error() == ''"),
            Answer { reason: "because".to_owned(), ..allowed(true) },
        ),
        (format!("!{check}.allowed() && {check}.errored() && {check}.error() == 'timeout'"), failed.clone()),
        (format!("{check}.reason() == 'why'"), failed),
        // A text of somebody else is no type.
        (
            format!("dyn({check}.reason()) != dyn(string)"),
            Answer { reason: "\0string".to_owned(), ..allowed(true) },
        ),
    ] {
        let (matched, rounds) = asked(&text, &json!({}), |_| answer.clone()).unwrap();
        assert_eq!(matched, Matched::Yes, "{text}");
        assert_eq!(rounds.len(), 1, "the same question is asked once: {text}");
    }
}

#[test]
fn a_service_account_is_asked_about_with_its_groups() {
    let caller = User::new("alice", ["admins"]);
    let question = |account| Question { account, what: path("/x"), verb: "get".to_owned() };
    assert_eq!(*question(None).user(&caller), caller);
    let account = question(Some(("ns".to_owned(), "robot".to_owned())));
    let expected =
        User::new("system:serviceaccount:ns:robot", ["system:serviceaccounts", "system:serviceaccounts:ns"]);
    assert_eq!(*account.user(&caller), expected);
}

#[test]
fn what_is_wrong_fails_when_it_is_evaluated() {
    for (text, why) in [
        ("authorizer.path('').check('get').allowed()", "path must not be empty"),
        ("authorizer.path('  ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.group('').resource(' ').check('get').allowed()", "resource must not be empty"),
        (
            "authorizer.serviceAccount('not@a#valid!namespace', 'a').path('/').check('get').allowed()",
            "Invalid service account namespace",
        ),
        (
            "authorizer.serviceAccount('valid.example.com', 'a').path('/').check('get').allowed()",
            "Invalid service account namespace",
        ),
        (
            "authorizer.serviceAccount('default', 'invalid@*name').path('/').check('get').allowed()",
            "Invalid service account name",
        ),
        ("dyn(authorizer).resource('pods').check('get').allowed()", ""),
        ("dyn('x').group('').resource('pods').check('get').allowed()", ""),
    ] {
        let (matched, rounds) = asked(text, &json!({}), |_| allowed(true)).unwrap();
        let Matched::Failed(error) = matched else { panic!("{text}: {matched:?}") };
        assert!(error.contains(why), "{text}: {error}");
        assert!(rounds.is_empty(), "{text}");
    }
}

#[test]
fn checks_have_types() {
    let authorizer = "kubernetes.authorization.Authorizer";
    for (text, why) in [
        (
            "authorizer.check('get').allowed()".to_owned(),
            format!("for 'check' applied to '({authorizer}, string)'"),
        ),
        ("authorizer.resource('pods').check('get').allowed()".to_owned(), "for 'resource'".to_owned()),
        ("authorizer.group('').check('get').allowed()".to_owned(), "for 'check'".to_owned()),
        ("authorizer.group('').resource('pods').allowed()".to_owned(), "for 'allowed'".to_owned()),
        ("authorizer.group('').resource('pods').check('get')".to_owned(), "must evaluate to bool".to_owned()),
        ("authorizer.group('').resource('pods').check(1).allowed()".to_owned(), "for 'check'".to_owned()),
        (
            "authorizer.path('/').namespace('a').check('get').allowed()".to_owned(),
            "for 'namespace'".to_owned(),
        ),
        (
            "authorizer.serviceAccount('a').path('/').check('get').allowed()".to_owned(),
            "for 'serviceAccount'".to_owned(),
        ),
        ("authorizer.requestResource.group('').check('get').allowed()".to_owned(), "for 'group'".to_owned()),
        ("authorizer.user == 'a'".to_owned(), "does not support field selection".to_owned()),
        ("has(authorizer.requestResource)".to_owned(), "does not support field selection".to_owned()),
        (
            "authorizer.group('').resource('pods').check('get').reason() == 1".to_owned(),
            "for '_==_'".to_owned(),
        ),
        (
            "requestResource.check('get').allowed()".to_owned(),
            "undeclared reference to 'requestResource".to_owned(),
        ),
    ] {
        let found = asked(&text, &json!({}), |_| allowed(true)).unwrap_err();
        assert!(found.contains(&why), "{text}: {found}");
    }
    // A variable of a loop hides it.
    let hidden = "[{'requestResource': 1}].all(authorizer, authorizer.requestResource == 1)";
    assert_eq!(asked(hidden, &json!({}), |_| allowed(true)), Ok((Matched::Yes, Vec::new())));
}

/// What is not needed does not fail for want of an answer, and answers can lead to other questions.
#[test]
fn questions_are_asked_as_they_come_up() {
    let can = |verb: &str| format!("authorizer.group('').resource('pods').check('{verb}').allowed()");
    let answer = |question: &Question| allowed(question.verb == "yes");
    for (text, expected, rounds) in [
        (format!("{} || true", can("no")), true, 1),
        (format!("false && {}", can("yes")), false, 0),
        (format!("{} ? {} : {}", can("no"), can("a"), can("yes")), true, 2),
        (format!("{} && {} && {}", can("yes"), can("no"), can("c")), false, 2),
        (format!("['a', 'b', 'yes'].exists(v, {})", can("x").replace("'x'", "v")), true, 3),
    ] {
        let (matched, asked) = asked(&text, &json!({}), answer).unwrap();
        assert_eq!(matched == Matched::Yes, expected, "{text}: {matched:?}");
        assert!(asked.len() <= rounds, "{text}: {asked:?}");
    }
}

#[test]
fn checks_are_few_and_short() {
    let each = "object.list.all(v, authorizer.group('').resource('pods').name(v).check('get').allowed())";
    let names = |count: usize| json!({"list": (0..count).map(|at| format!("n{at}")).collect::<Vec<_>>()});
    let (matched, rounds) = asked(each, &names(7), |_| allowed(true)).unwrap();
    assert_eq!((matched, rounds.concat().len()), (Matched::Yes, 7));
    let (matched, rounds) = asked(each, &names(1000), |_| allowed(true)).unwrap();
    let Matched::Failed(why) = matched else { panic!("{matched:?}") };
    assert!(why.contains("actual cost limit exceeded: more than 7 authorization checks"), "{why}");
    assert_eq!(rounds.concat().len(), 7);
    let long = json!({"list": ["x".repeat(20_000)]});
    let (matched, rounds) = asked(each, &long, |_| allowed(true)).unwrap();
    assert!(matches!(matched, Matched::Failed(_)) && rounds.is_empty());
    // The same question again is free.
    let same = json!({"list": vec!["a"; 1000]});
    assert_eq!(asked(each, &same, |_| allowed(true)).unwrap().0, Matched::Yes);
}

/// A policy of these validations about a write of this object, with all answered alike.
fn judged(
    spec: &Value,
    object: &Value,
    is_allowed: bool,
) -> Result<(Judgement, usize), Vec<(String, String)>> {
    let program = Program::compile(&Texts::of(map(spec)).unwrap())
        .map_err(|faults| faults.into_iter().map(|fault| (fault.field, fault.why)).collect::<Vec<_>>())?;
    let (request, checks) = (request(), Arc::new(Checks::of_policy()));
    let write = Write { request: map(&request), object: object.as_object(), old: None };
    let (inputs, mut budget, mut asked) = (Inputs::of(&write, None), Budget::default(), 0);
    loop {
        let judged = program.judge(&inputs, None, &mut budget, &checks);
        let open = checks.take_open();
        if open.is_empty() {
            return Ok((judged, asked));
        }
        asked += open.len();
        open.into_iter().for_each(|question| checks.add(question, allowed(is_allowed)));
    }
}

/// What the validations and the audit annotations came to, without their times.
pub(crate) type Results = (Vec<Checked>, Vec<Result<Option<String>, String>>);

pub(crate) fn results(judgement: Judgement) -> Results {
    let Judgement::Judged(checked, annotations) = judgement else { panic!("{judgement:?}") };
    let checked = checked.into_iter().map(|(checked, _)| checked);
    (checked.collect(), annotations.into_iter().map(|(annotation, _)| annotation).collect())
}

#[test]
fn policies_ask_everywhere_but_in_messages() {
    let can = "authorizer.requestResource.check('use').allowed()";
    let spec = json!({
        "matchConditions": [{"name": "a", "expression": format!("{can} || true")}],
        "variables": [
            {"name": "pods", "expression": "authorizer.group('').resource('pods')"},
            {"name": "may", "expression": "variables.pods.check('get').allowed()"},
        ],
        "validations": [
            {"expression": can},
            {"expression": "variables.may", "messageExpression": "'pods: ' + (variables.may ? 'yes' : 'no')"},
        ],
        "auditAnnotations": [{"key": "a", "valueExpression": format!("{can} ? 'yes' : 'no'")}],
    });
    let (yes, asked) = judged(&spec, &json!({}), true).unwrap();
    assert_eq!(asked, 2);
    let annotation = |text: &str| vec![Ok(Some(text.to_owned()))];
    assert_eq!(results(yes), (vec![Checked::Holds, Checked::Holds], annotation("yes")));
    let (no, _) = judged(&spec, &json!({}), false).unwrap();
    let told = Checked::Fails(Some("pods: no".to_owned()));
    assert_eq!(results(no), (vec![Checked::Fails(None), told], annotation("no")));
    let in_message = json!({"validations": [{"expression": "true", "messageExpression": "authorizer.requestResource.check('use').reason()"}]});
    let faults = judged(&in_message, &json!({}), true).unwrap_err();
    assert_eq!(faults[0].0, "spec.validations[0].messageExpression");
    assert!(faults[0].1.contains("undeclared reference to 'authorizer"), "{faults:?}");
}

#[test]
fn the_checks_of_a_policy_are_bounded_and_each_round_is_charged() {
    let each = "object.list.all(v, authorizer.group('').resource('pods').name(v).check('get').allowed())";
    let spec = json!({"validations": [{"expression": each}]});
    let names = |count: usize| json!({"list": (0..count).map(|at| format!("n{at}")).collect::<Vec<_>>()});
    let (judgement, asked) = judged(&spec, &names(28), true).unwrap();
    assert_eq!(results(judgement), (vec![Checked::Holds], Vec::new()));
    assert_eq!(asked, 28);
    let (judgement, asked) = judged(&spec, &names(29), true).unwrap();
    assert_eq!(asked, 28);
    let (checked, _) = results(judgement);
    assert!(
        matches!(&checked[..], [Checked::Failed(why)] if why.contains("more than 28 authorization checks"))
    );
    // A large object is not gone through again for each of many checks.
    let mut large = names(28);
    large["text"] = json!("x".repeat(1 << 20));
    let (judgement, asked) = judged(&spec, &large, true).unwrap();
    let (checked, _) = results(judgement);
    assert!(matches!(&checked[..], [Checked::Failed(why)] if why.contains("cost budget")), "{checked:?}");
    assert!(asked < 28);
}
