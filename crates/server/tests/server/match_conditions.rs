//! Match conditions against what Kubernetes 1.36 answered, and what bounds them (AC-100 to AC-110).

#![cfg(feature = "cel")]

use portcullis_policy::User;
use portcullis_policy::review::{AccessReview, Review, ReviewKind, ReviewMetadata, ReviewVersion};
use portcullis_server::match_conditions::{Conditions, Matched};
use portcullis_testkit::recorded;
use serde_json::{Value, json};

fn expressions(line: &Value) -> Vec<String> {
    serde_json::from_value(line["expressions"].clone()).unwrap()
}

#[test]
fn every_recorded_condition_has_its_recorded_outcome() {
    let lines = recorded::lines("match-conditions.jsonl");
    let mut differ = Vec::new();
    for line in &lines {
        let document = json!({"spec": line["spec"]});
        let expected = Some((ReviewKind::SubjectAccessReview, ReviewVersion::V1));
        let Ok(Review::Access(spec)) = Review::read(&document, expected) else { panic!("{line}") };
        let found = match Conditions::compile(&expressions(line)) {
            Err(_) => json!({"compileError": true}),
            Ok(conditions) => match conditions.evaluate(&spec) {
                Matched::Yes => json!({"match": true, "evalError": false}),
                // Whether another failed before is a metric only.
                Matched::No { .. } => json!({"match": false, "evalError": false}),
                Matched::Failed(_) => json!({"match": false, "evalError": true}),
            },
        };
        let is_same = found.as_object().unwrap().iter().all(|(key, value)| line[key] == *value);
        if !is_same {
            differ.push(format!("{found} {:?}: {line}", Conditions::compile(&expressions(line)).err()));
        }
    }
    assert!(differ.is_empty(), "{} of {} differ:\n{}", differ.len(), lines.len(), differ.join("\n"));
}

/// A review that says no more than whom it is about.
fn about(user: User) -> AccessReview {
    let (version, kind) = (ReviewVersion::V1, ReviewKind::SubjectAccessReview);
    AccessReview {
        version,
        kind,
        metadata: ReviewMetadata::default(),
        user,
        resource: None,
        non_resource: None,
    }
}

fn refusal(expression: &str) -> String {
    let errors = Conditions::compile(&[expression.to_owned()]).unwrap_err();
    errors[0].1.clone()
}

#[test]
fn what_is_not_declared_does_not_compile_ac_100() {
    for (expression, why) in [
        ("request.nope == 'x'", "undefined field 'nope'"),
        ("request.resourceAttributes.nope == 'x'", "undefined field 'nope'"),
        ("has(request.nope)", "undefined field 'nope'"),
        ("request.groups.exists(g, request.nope == g)", "undefined field 'nope'"),
        ("request.?nope.hasValue()", "undefined field 'nope'"),
        ("object == null", "undeclared reference to 'object'"),
        ("request.groups.exists(g, h == 'x')", "undeclared reference to 'h'"),
        ("request.user.nope()", "undeclared reference to 'nope'"),
        ("request.user == 1", "found no matching overload"),
        ("request.groups == request.user", "found no matching overload"),
        ("request.groups.exists(g, g == 1)", "found no matching overload"),
        ("request.user.startsWith(1)", "found no matching overload"),
        ("!request.user", "found no matching overload"),
        ("request.user < 1", "found no matching overload"),
        ("request.user", "must evaluate to bool, and not to string"),
        ("dyn(true)", "must evaluate to bool, and not to dyn"),
        ("request.user.matches('[')", ""),
        ("duration('soon') == duration('1s')", ""),
        ("timestamp('soon') == timestamp('later')", ""),
        ("kubernetes.SubjectAccessReviewSpec{user: 'x'} == request", "undeclared reference"),
    ] {
        let found = refusal(expression);
        assert!(found.contains(why), "{expression}: {found}");
    }
}

#[test]
fn a_field_of_an_optional_value_is_optional_ac_100() {
    let selected = |requirements: Value| {
        let attributes =
            json!({"verb": "list", "resource": "pods", "labelSelector": {"requirements": requirements}});
        json!({"user": "x", "resourceAttributes": attributes})
    };
    let plain = json!({"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods", "name": "a"}});
    let path = json!({"user": "x", "nonResourceAttributes": {"path": "/healthz", "verb": "get"}});
    let one = selected(json!([{"key": "app", "operator": "In", "values": ["a"]}]));
    // The language definition of optional values: a selection from an absent value is absent, whichever way it is
    // written, and does not nest.
    let chain = |text: &str| format!("request.?resourceAttributes{text}");
    for (expression, of_one, of_plain, of_path) in [
        (chain(".labelSelector.requirements.orValue([]).size() == 1"), true, false, false),
        (chain(".?labelSelector.?requirements.orValue([]).size() == 0"), false, true, true),
        (chain(".labelSelector.requirements.hasValue()"), true, false, false),
        (chain(".labelSelector.requirements[0].key.orValue('') == 'app'"), true, false, false),
        (chain(".labelSelector.requirements[?0].values[0].orValue('') == 'a'"), true, false, false),
        (chain(".verb.orValue('none') == 'none'"), false, false, true),
        (chain(".?name.orValue('none') == 'a'"), false, true, false),
        (chain(".hasValue()"), true, true, false),
        (chain(".labelSelector.hasValue()"), true, false, false),
        ("has(request.?resourceAttributes.labelSelector)".to_owned(), true, false, false),
        ("dyn(request.?resourceAttributes).verb.orValue('none') == 'none'".to_owned(), false, false, true),
        ("dyn(request).user == 'x' && !has(dyn(request).nope)".to_owned(), true, true, true),
        ("request.?extra['k'].hasValue() || request.?extra[?'k'].hasValue()".to_owned(), false, false, false),
    ] {
        let conditions = Conditions::compile(std::slice::from_ref(&expression)).unwrap_or_else(|error| {
            panic!("{expression}: {error:?}");
        });
        for (spec, expected) in [(&one, of_one), (&plain, of_plain), (&path, of_path)] {
            let kind = Some((ReviewKind::SubjectAccessReview, ReviewVersion::V1));
            let Ok(Review::Access(review)) = Review::read(&json!({"spec": spec}), kind) else {
                panic!("{spec}")
            };
            let expected = if expected { Matched::Yes } else { Matched::No { failed: false } };
            assert_eq!(conditions.evaluate(&review), expected, "{expression}: {spec}");
        }
    }
    // The type of such a selection is optional.
    for (expression, why) in [
        ("request.?resourceAttributes.verb == 'get'", "found no matching overload"),
        ("request.?resourceAttributes.nope.hasValue()", "undefined field 'nope'"),
        ("request.?resourceAttributes.verb.orValue(1) == 1", "found no matching overload"),
        ("request.?resourceAttributes.verb.size() == 3", "found no matching overload"),
    ] {
        let found = refusal(expression);
        assert!(found.contains(why), "{expression}: {found}");
    }
}

#[test]
fn what_nests_too_deep_is_refused_and_not_survived_by_luck() {
    let many = 20_000;
    for expression in [
        format!("{}true{}", "(".repeat(many / 10), ")".repeat(many / 10)),
        format!("{}true{}", "(".repeat(60), ")".repeat(60)),
        format!("{}true", "!".repeat(4_000)),
        format!("{}1 == 1", "-".repeat(4_000)),
        format!("{}[]{} == []", "[".repeat(60), "]".repeat(60)),
        format!("{}true", "true ? true : ".repeat(1_000)),
        format!("'a'{} == 'a'", " + 'a'".repeat(1_500)),
        format!("{}.size() == 1", "request.user.trim()".to_owned() + &".trim()".repeat(1_000)),
        "x".repeat(many),
        "[1].all(a, [1].all(b, [1].all(c, [1].all(d, [1].all(e, true)))))".to_owned(),
    ] {
        assert!(Conditions::compile(std::slice::from_ref(&expression)).is_err(), "{expression:.60}");
    }
}

#[test]
fn what_is_accepted_is_evaluated_on_an_ordinary_stack() {
    // As deep as can be: on a thread with as much room as the threads that serve have.
    let deep = format!("{}request.user == 'x'{}", "(true && (".repeat(9), "))".repeat(9));
    let sum = format!("'a'{} != 'b'", " + 'a'".repeat(30));
    let trimmed = format!("request.user{} == 'x'", ".trim()".repeat(30));
    let conditions = Conditions::compile(&[deep, sum, trimmed]).unwrap();
    let spec = about(User::new("x", [""; 0]));
    let evaluating = std::thread::Builder::new().stack_size(2 << 20);
    let matched = evaluating.spawn(move || conditions.evaluate(&spec)).unwrap().join().unwrap();
    assert_eq!(matched, Matched::Yes);
}

#[test]
fn a_request_that_is_too_large_is_an_error_and_not_a_mismatch() {
    let conditions = Conditions::compile(&["request.user == 'x'".to_owned()]).unwrap();
    let spec = about(User::new("", vec!["g".repeat(1000); 1000]));
    assert!(matches!(conditions.evaluate(&spec), Matched::Failed(_)));
}

#[test]
fn what_takes_too_long_is_an_error_ac_102() {
    let nested = "request.groups.all(a, request.groups.all(b, request.groups.all(c, a + b != c)))";
    let listed = "request.groups.map(g, g + 'x').size() > 0";
    let flat = "request.groups.all(a, a != 'x')";
    let spec = |groups| about(User::new("", vec!["g"; groups]));
    for (expression, few, many) in [(nested, 62, 63), (listed, 500, 501), (flat, 60_000, usize::MAX)] {
        let conditions = Conditions::compile(&[expression.to_owned()]).unwrap();
        assert_eq!(conditions.evaluate(&spec(few)), Matched::Yes, "{expression}");
        if many < usize::MAX {
            assert!(matches!(conditions.evaluate(&spec(many)), Matched::Failed(_)), "{expression}");
        }
    }
}

#[test]
fn a_false_condition_wins_over_one_that_failed_ac_108() {
    let compile = |expressions: &[&str]| {
        Conditions::compile(&expressions.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    };
    let spec = about(User::default());
    let fails = "request.resourceAttributes.name == ''";
    assert_eq!(compile(&[fails, "false"]).evaluate(&spec), Matched::No { failed: true });
    assert_eq!(compile(&["false", fails]).evaluate(&spec), Matched::No { failed: false });
    let Matched::Failed(error) = compile(&["true", fails]).evaluate(&spec) else { panic!("it failed") };
    assert!(
        error.starts_with(&format!("cel evaluation error: expression '{fails}' resulted in error: ")),
        "{error}"
    );
}
