//! The macros of the language that have two variables or are about optional values, wherever expressions are evaluated. What
//! they mean is documented with cel-go (`ext/comprehensions`, optional types) and by the definition of the language.

#![cfg(feature = "cel")]

use std::sync::Arc;

use portcullis_kinds::Map;
use portcullis_kinds::custom::{RuleCompiler as _, Schema};
use portcullis_server::match_conditions::checks::Checks;
use portcullis_server::match_conditions::claims::{Expression, Outcome, Purpose, Subject};
use portcullis_server::match_conditions::policies::{Budget, Checked, Inputs, Judgement, Program, Texts};
use portcullis_server::match_conditions::{AdmissionConditions, Matched, RULES, Write, selector_faults};
use serde_json::{Value, json};

use crate::authorizer::results;

fn map(value: &Value) -> &Map {
    value.as_object().unwrap()
}

/// The outcome of a condition about a write of this object, or why it does not compile.
fn condition(text: &str, object: &Value) -> Result<Matched, String> {
    let conditions =
        AdmissionConditions::compile(&[text.to_owned()]).map_err(|faults| faults[0].1.clone())?;
    let request = json!({"userInfo": {"groups": ["a", "b"]}});
    let write = Write { request: map(&request), object: object.as_object(), old: None };
    Ok(conditions.evaluate(&write, &Arc::new(Checks::of_conditions())))
}

/// The same of a policy whose only variable is this expression.
fn policy(text: &str, object: &Value) -> Result<Judgement, String> {
    let spec = json!({
        "variables": [{"name": "found", "expression": text}],
        "validations": [{"expression": "variables.found"}],
    });
    let program =
        Program::compile(&Texts::of(map(&spec)).unwrap()).map_err(|faults| faults[0].why.clone())?;
    let request = json!({"userInfo": {"groups": ["a", "b"]}});
    let write = Write { request: map(&request), object: object.as_object(), old: None };
    let checks = Arc::new(Checks::of_policy());
    Ok(program.judge(&Inputs::of(&write, None), None, &mut Budget::default(), &checks))
}

/// The faults of an object by a rule of its schema, or those of the rule.
fn rule(text: &str, schema: &Value, object: &Value) -> Result<Vec<String>, String> {
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = json!([{"rule": text}]);
    let schema = Schema::read(map(&schema));
    let shown = |errors: portcullis_apimachinery::field_error::FieldErrors| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let rules = RULES.compile(&schema, "schema").map_err(|errors| shown(errors).join("; "))?;
    Ok(shown(rules.check(&schema, map(object), None)))
}

fn of_token(text: &str, claims: &Value) -> Result<Outcome, String> {
    let compiled = Expression::compile(vec![(text.to_owned(), Purpose::ClaimRule)]).remove(0)?;
    Subject::claims(map(claims)).value_of(&compiled)
}

/// All are true.
const TRUE: &[&str] = &[
    // Over lists: index and value.
    "[1, 2, 3].all(i, v, i < v)",
    "![1, 2, 3].all(i, v, i + 2 > v + 1)",
    "[].all(i, v, false)",
    "[1, 2, 4, 8].exists(i, v, v == 4 && i == 2)",
    "![1, 2, 4, 8].exists(i, v, v == 1024 && i == 10)",
    "![1, 2, 1, 3, 1, 4].existsOne(i, v, i == 1 || v == 1)",
    "[1, 1, 2, 2, 3, 3].existsOne(i, v, i == 2 && v == 2)",
    "[1, 1, 2, 2, 3, 3].exists_one(i, v, i == 2 && v == 2)",
    "[1, 2, 3].transformList(i, v, (i * v) + v) == [1, 4, 9]",
    "[1, 2, 3].transformList(i, v, i % 2 == 0, (i * v) + v) == [1, 9]",
    "[1, 2, 3].transformMap(i, v, (i * v) + v) == {0: 1, 1: 4, 2: 9}",
    "[1, 2, 3].transformMap(i, v, i % 2 == 0, (i * v) + v) == {0: 1, 2: 9}",
    "['a', 'b'].transformMapEntry(i, v, {v: i}) == {'a': 0, 'b': 1}",
    "['a', 'b', 'c'].transformMapEntry(i, v, i != 1, {v: i}) == {'a': 0, 'c': 2}",
    "['a', 'b'].transformMapEntry(i, v, {}) == {}",
    "[].transformMap(i, v, v) == {}",
    // Over maps: key and value.
    "{'greeting': 'hello', 'farewell': 'goodbye'}.exists(k, v, k.startsWith('good') || v.endsWith('bye'))",
    "!{'hello': 'world', 'taco': 'taco'}.all(k, v, k != v)",
    "{'i': 0, 'j': 1, 'k': 2}.existsOne(k, v, k == 'l' || v == 1)",
    "{'greeting': 'hello'}.transformMap(k, v, v + '!') == {'greeting': 'hello!'}",
    "{'greeting': 'hello'}.transformMapEntry(k, v, {v: k}) == {'hello': 'greeting'}",
    "{'a': 'b'}.transformList(k, v, k + '=' + v) == ['a=b']",
    "{'a': 1, 'b': 2}.transformList(k, _, k).all(k, k in ['a', 'b'])",
    "{1: 'a', 2: 'b'}.all(k, v, k > 0 && v != '')",
    "dyn({'a': 'b'}).transformList(k, v, k + v) == ['ab']",
    // Loops in loops, and names that hide others.
    "{'h': ['hello', 'hi'], 'j': ['joke', 'jog']}.all(k, vs, vs.all(v, v.startsWith(k)))",
    "{'h': ['hello', 'hi']}.all(k, vs, vs.all(i, v, v.startsWith(k) && i < 2))",
    "{'a': [1]}.all(k, v, v.all(k, k == 1) && k == 'a')",
    "{'a': [1]}.all(k, v, v.all(i, v, i == 0 && v == 1) && v == [1])",
    "{'a': [5]}.all(k, v, v.all(k, v, k == 0 && v == 5) && k == 'a')",
    "{'a': {'b': 'c'}}.all(k, v, v.all(v, k, v == 'b' && k == 'c'))",
    "[[1, 2], [3]].transformList(i, v, v.transformList(j, w, w + i + j)) == [[1, 3], [4]]",
    "['x'].all(i, size, size == 'x' && size('ab') == 2)",
    "{'a': 'b'}.transformMap(k, v, [k]).transformList(k, v, v[0] + k) == ['aa']",
    // Optional values.
    "optional.of(1).optMap(x, x + 1).value() == 2",
    "!optional.none().optMap(x, x).hasValue()",
    "optional.of({'a': 1}).optMap(x, x.a).orValue(0) == 1",
    "{'a': 'b'}[?'a'].optMap(x, x + 'c').orValue('none') == 'bc'",
    "{'a': 'b'}[?'z'].optMap(x, x + 'c').orValue('none') == 'none'",
    "optional.of({'a': 1}).optFlatMap(x, x[?'a']).value() == 1",
    "!optional.of({'a': 1}).optFlatMap(x, x[?'b']).hasValue()",
    "!{'a': {'b': 1}}[?'c'].optFlatMap(x, x[?'b']).hasValue()",
    "{'a': {'b': 1}}[?'a'].optFlatMap(x, x[?'b']).optMap(y, y + 1).value() == 2",
    "optional.of(1).optMap(x, optional.of(2).optMap(y, x + y).value()).value() == 3",
    "['a', 'b', 'a'].exists(i, v, ['a', 'b', 'a'][?(i + 1)].optMap(next, next == 'b').orValue(false))",
];

#[test]
fn macros_mean_wherever_expressions_are_what_the_language_says() {
    let object = json!({"spec": {}});
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for text in TRUE {
        assert_eq!(condition(text, &object), Ok(Matched::Yes), "{text}");
        let holds = (vec![Checked::Holds], Vec::new());
        assert_eq!(policy(text, &object).map(results), Ok(holds), "{text}");
        assert_eq!(rule(text, &schema, &json!({"a": "b"})), Ok(Vec::new()), "{text}");
        assert_eq!(of_token(text, &json!({})), Ok(Outcome::Bool(true)), "{text}");
    }
    // In an object.
    let object = json!({"metadata": {"labels": {"app": "web", "tier": "app"}}, "spec": {"list": [{"name": "a"}, {"name": "b"}]}});
    for text in [
        "object.metadata.labels.exists(k, v, k == v) == false",
        "object.metadata.labels.existsOne(k, v, k == 'app' || v == 'none')",
        "object.spec.list.all(i, one, object.spec.list.existsOne(j, other, one.name == other.name && i == j))",
        "object.spec.list.transformMapEntry(i, one, {one.name: i})['b'] == 1",
        "object.?metadata.labels.optMap(labels, labels.size()).orValue(0) == 2",
        "object.?metadata.annotations.optMap(found, found.size()).orValue(7) == 7",
        "object.?metadata.?labels.optFlatMap(labels, labels[?'app']).orValue('') == 'web'",
    ] {
        assert_eq!(condition(text, &object), Ok(Matched::Yes), "{text}");
    }
    let claims = json!({"roles": {"a": "x", "b": "y"}, "groups": ["g", "h"]});
    for text in
        ["claims.?groups.optMap(g, g.size()).orValue(0) == 2", "claims.?none.optMap(g, 1).orValue(2) == 2"]
    {
        assert_eq!(of_token(text, &claims), Ok(Outcome::Bool(true)), "{text}");
    }
}

#[test]
fn rules_of_custom_kinds_and_their_messages_know_them() {
    let schema = json!({"type": "object", "properties": {
        "labels": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "string", "maxLength": 10}},
        "list": {"type": "array", "maxItems": 10, "items": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}}},
        "mode": {"type": "string", "maxLength": 10},
    }});
    let object = json!({"labels": {"a": "b", "c": "c"}, "list": [{"name": "x"}, {"name": "y"}]});
    for (text, holds) in [
        ("self.labels.all(k, v, v.size() == 1 && k.size() == 1)", true),
        ("self.labels.all(k, v, k != v)", false),
        ("self.list.all(i, v, i < 2 && v.name in ['x', 'y'])", true),
        ("self.list.transformList(i, v, v.name) == ['x', 'y']", true),
        ("self.labels.transformMap(k, v, v + k) == {'a': 'ba', 'c': 'cc'}", true),
        ("self.?mode.optMap(m, m == 'fast').orValue(true)", true),
        ("self.?labels.optFlatMap(l, l[?'a']).orValue('') == 'z'", false),
    ] {
        let faults = rule(text, &schema, &object).unwrap();
        assert_eq!(faults.is_empty(), holds, "{text}: {faults:?}");
    }
    let mut with_message = schema.clone();
    let message = "'same: ' + self.labels.transformList(k, v, k == v, k).join(', ')";
    with_message["x-kubernetes-validations"] =
        json!([{"rule": "self.labels.all(k, v, k != v)", "messageExpression": message}]);
    let schema = Schema::read(map(&with_message));
    let rules = RULES.compile(&schema, "schema").unwrap();
    let errors = rules.check(&schema, map(&object), None);
    assert!(errors.iter().any(|error| error.to_string().contains("same: c")), "{errors:?}");
}

/// Optional values that are variables: the old value of a rule, and a variable of a policy.
#[test]
fn a_variable_can_be_optional() {
    let schema = Schema::read(map(&json!({
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 10}},
        "x-kubernetes-validations": [{"rule": "oldSelf.optMap(old, old.a == self.a).orValue(true)", "optionalOldSelf": true}],
    })));
    let rules = RULES.compile(&schema, "schema").unwrap();
    let (a, b) = (json!({"a": "a"}), json!({"a": "b"}));
    for (new, old, holds) in [(&a, None, true), (&a, Some(&a), true), (&b, Some(&a), false)] {
        assert_eq!(rules.check(&schema, map(new), old.map(map)).is_empty(), holds, "{new} {old:?}");
    }
    let spec = json!({
        "variables": [
            {"name": "labels", "expression": "object.?metadata.labels"},
            {"name": "app", "expression": "variables.labels.optFlatMap(labels, labels[?'app'])"},
        ],
        "validations": [{"expression": "variables.app.optMap(app, app == 'web').orValue(false)"}],
    });
    let program = Program::compile(&Texts::of(map(&spec)).unwrap()).unwrap();
    let request = json!({});
    for (object, checked) in [
        (json!({"metadata": {"labels": {"app": "web"}}}), Checked::Holds),
        (json!({"metadata": {"labels": {"app": "x"}}}), Checked::Fails(None)),
        (json!({"metadata": {"labels": {}}}), Checked::Fails(None)),
        (json!({"metadata": {}}), Checked::Fails(None)),
    ] {
        let write = Write { request: map(&request), object: object.as_object(), old: None };
        let checks = Arc::new(Checks::of_policy());
        let judged = program.judge(&Inputs::of(&write, None), None, &mut Budget::default(), &checks);
        assert_eq!(results(judged), (vec![checked], Vec::new()), "{object}");
    }
}

/// What does not compile, with a part of the reason. Those of cel-go where it has one.
#[test]
fn a_wrong_type_in_a_macro_is_refused() {
    let object = json!({"spec": {}});
    for (text, why) in [
        ("[].all(i, i, i < i)", "duplicate variable name: i"),
        ("[].all(i.j, k, true)", "argument must be a simple name"),
        ("[].exists(j, i.k, true)", "argument must be a simple name"),
        ("[].existsOne(j, 1, true)", "argument must be a simple name"),
        ("{}.transformMap(j, i.k, j) == {}", "argument must be a simple name"),
        ("optional.of(1).optMap(x.y, 1).hasValue()", "argument must be a simple name"),
        ("1.all(j, k, j < k)", "cannot be range"),
        ("''.exists(j, k, j < k)", "cannot be range"),
        ("[1].all(i, v, i)", "found no matching overload for '_&&_' applied to '(bool, int)'"),
        ("[1].exists(i, v, v)", "found no matching overload for '_||_' applied to '(bool, int)'"),
        ("[1].existsOne(i, v, v)", "found no matching overload for '_?_:_'"),
        ("['a'].all(i, v, v > i)", "found no matching overload for '_>_' applied to '(string, int)'"),
        ("{'a': 1}.all(k, v, k == v)", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("{}.transformMapEntry(j, k, 'bad filter', {k: j}) == {}", "found no matching overload for '_?_:_'"),
        ("{'a': 'b'}.transformMapEntry(k, v, []) == {}", "found no matching overload for 'cel.@mapInsert'"),
        ("[1].transformMap(i, v, 'x') == {'a': 'x'}", "found no matching overload for '_==_'"),
        ("[1].transformList(i, v, v) == ['x']", "found no matching overload for '_==_'"),
        ("[1].all(i, v, w == 1)", "undeclared reference to 'w'"),
        ("[1].all(i, v, true) && i == 0", "undeclared reference to 'i'"),
        ("optional.of(1).optMap(x, true).value() && x == 1", "undeclared reference to 'x'"),
        ("1.optMap(x, x) == 1", "found no matching overload for 'hasValue' applied to '(int)'"),
        ("optional.of(1).optMap(x, x) == 1", "found no matching overload for '_==_'"),
        ("optional.of(1).optMap(x, x + 'a').hasValue()", "found no matching overload for '_+_'"),
        (
            "optional.of(1).optFlatMap(x, x).hasValue()",
            "found no matching overload for 'hasValue' applied to '(int)'",
        ),
        (
            "optional.of('a').optMap(x, x.size()).orValue('b') == 'b'",
            "found no matching overload for 'orValue'",
        ),
        // Kubernetes knows neither.
        ("cel.bind(x, 1, x == 1)", "undeclared reference to"),
        ("[2, 1].sortBy(x, x) == [1, 2]", "undeclared reference to"),
        // Not macros with so many arguments.
        ("[1].all(i, v)", ""),
        ("[1].transformList(i, v, true, v, v) == []", "undeclared reference to"),
        ("optional.of(1).optMap(x).hasValue()", "undeclared reference to"),
    ] {
        for found in [condition(text, &object).map(drop), policy(text, &object).map(drop)] {
            let found = found.unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "integer"}},
        "b": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 3}},
    }});
    for (text, why) in [
        ("self.a.all(k, v, k == v)", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.b.all(i, v, i == v)", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.?a.optMap(m, m.nope == 'x').orValue(true)", "found no matching overload"),
        ("cel.bind(x, self.a, true)", "undeclared reference to"),
    ] {
        let found = rule(text, &schema, &json!({})).unwrap_err();
        assert!(found.contains(why), "{text}: {found}");
    }
    // Selectors of devices have all of them, and cel.bind.
    for text in
        ["cel.bind(d, device.driver, d == 'a')", "device.attributes.all(k, v, k != '' && v.size() > 0)"]
    {
        assert!(selector_faults(vec![text.to_owned()]).is_empty(), "{text}");
    }
    assert!(!selector_faults(vec!["cel.bind(d, device.driver, d == 1)".to_owned()]).is_empty());
}

#[test]
fn a_key_that_is_made_twice_is_an_error() {
    let object = json!({"spec": {"zero": 0}});
    for (text, key) in [
        ("[1, 1].transformMapEntry(i, v, {v: i}) == {}", "1"),
        ("{'greeting': 'aloha', 'farewell': 'aloha'}.transformMapEntry(k, v, {v: k}) == {}", "aloha"),
        ("dyn([0, dyn(0u)]).transformMapEntry(i, v, {v: i}) == {}", "0"),
        ("[true, true].transformMapEntry(i, v, {v: i}) == {}", "true"),
    ] {
        let Ok(Matched::Failed(why)) = condition(text, &object) else { panic!("{text}") };
        assert!(why.contains(&format!("insert failed: key {key} already exists")), "{text}: {why}");
    }
    // What is no key, no range and no optional value, known only when it is evaluated.
    for text in [
        "[object.spec].transformMapEntry(i, v, {v: i}) == {}",
        "object.spec.zero.all(i, v, true)",
        "object.spec.zero.optMap(x, true).orValue(true)",
    ] {
        assert!(matches!(condition(text, &object), Ok(Matched::Failed(_))), "{text}");
    }
}

#[test]
fn loops_over_two_variables_are_bounded_as_all_others() {
    let list = |count: usize| json!({"spec": {"list": vec![1; count]}});
    let too_many = "actual cost limit exceeded";
    // A loop counts once, and one that builds something twice.
    for (text, few, many) in [
        (
            "object.spec.list.all(a, b, object.spec.list.all(c, d, object.spec.list.all(e, f, b == d)))",
            62,
            63,
        ),
        ("object.spec.list.transformList(i, v, v).size() > 0", 500, 501),
        ("object.spec.list.transformMap(i, v, v).size() > 0", 500, 501),
        ("object.spec.list.transformMapEntry(i, v, {i: v}).size() > 0", 500, 501),
    ] {
        assert_eq!(condition(text, &list(few)), Ok(Matched::Yes), "{text}");
        let Ok(Matched::Failed(why)) = condition(text, &list(many)) else { panic!("{text}") };
        assert!(why.contains(too_many), "{text}: {why}");
    }
    // Going into an optional value is no loop, however often.
    let each = "object.?spec.optMap(s, ";
    let nested = format!("{}true{}.hasValue()", each.repeat(8), ")".repeat(8));
    assert_eq!(condition(&nested, &list(100_000)), Ok(Matched::Yes));
    for text in [
        "[1].all(a, b, [1].all(c, d, [1].all(e, f, [1].all(g, h, [1].all(i, j, true)))))".to_owned(),
        "[1].transformMap(a, b, [1].transformMap(c, d, [1].transformMap(e, f, 1))).size() > 0".to_owned(),
        // Nesting counts as it is evaluated.
        format!("{}true{}.hasValue()", each.repeat(30), ")".repeat(30)),
        format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(60)),
    ] {
        assert!(condition(&text, &json!({})).is_err(), "{text:.80}");
    }
}

/// The deepest macros that compile, on a thread with as much room as those that evaluate have.
#[test]
fn macros_are_evaluated_on_an_ordinary_stack() {
    let object = json!({"spec": {"list": [1]}});
    for (open, inner, close) in [
        ("object.?spec.optMap(s, ", "true", ").orValue(true)"),
        ("object.?spec.optFlatMap(s, optional.of(", "true", ")).orValue(true)"),
        ("[1, 2].all(i, v, ", "true", ")"),
        ("[1].transformList(i, v, ", "true", ").size() == 1"),
    ] {
        let text = |depth: usize| format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
        let deepest =
            (1..40).rev().map(text).find(|text| condition(text, &json!({"spec": {}})).is_ok()).unwrap();
        let object = object.clone();
        let evaluating = std::thread::Builder::new().stack_size(2 << 20);
        let matched = evaluating.spawn(move || condition(&deepest, &object)).unwrap().join().unwrap();
        assert!(matches!(matched, Ok(Matched::Yes | Matched::Failed(_))), "{open}: {matched:?}");
    }
}

/// Each step doubles the value: with thirty it would have gigabytes.
#[test]
fn values_that_double_again_and_again_are_refused() {
    for (start, step, end) in [
        ("[object]", ".map(x, [x, x])", ".size() > 0"),
        ("[object]", ".transformList(i, x, [x, x])", ".size() > 0"),
        ("{'a': object}", ".transformMap(k, x, [x, x])", ".size() > 0"),
        ("optional.of(object)", ".optMap(x, [x, x])", ".hasValue()"),
        ("optional.of([object])", ".optMap(x, x + x)", ".hasValue()"),
        ("optional.of([object])", ".optFlatMap(x, optional.of(x + x))", ".hasValue()"),
    ] {
        let text = |steps: usize| format!("{start}{}{end}", step.repeat(steps));
        let found = condition(&text(3), &json!({"a": 1}));
        assert_eq!(found, Ok(Matched::Yes), "{}", text(3));
        let why = condition(&text(12), &json!({"a": 1})).unwrap_err();
        assert!(why.contains("copies of what the expression reads"), "{step}: {why}");
        // The text that has no copies in it can be as long.
        let long = format!("[{}].size() > 0", vec!["'a'"; 1000].join(", "));
        assert_eq!(condition(&long, &json!({})), Ok(Matched::Yes));
    }
    let nested = "optional.of(object).optMap(a, optional.of([a, a]).optMap(b, optional.of([b, b]).optMap(c, optional.of([c, c]).optMap(d, \
        optional.of([d, d]).optMap(e, optional.of([e, e]).optMap(f, optional.of([f, f]).optMap(g, [g, g]))))))).hasValue()";
    assert!(condition(nested, &json!({})).unwrap_err().contains("copies"));
    // A few copies count as often as they are made.
    let large = json!({"text": "x".repeat(1 << 20), "list": vec![1; 12]});
    for (text, is_within) in [
        ("object.list.map(x, object).size() == 12", true),
        ("object.list.map(x, [object, object]).size() == 12", false),
    ] {
        let found = condition(text, &large).unwrap();
        assert_eq!(found == Matched::Yes, is_within, "{text}: {found:?}");
    }
}

/// The estimate knows the entries of maps and lists, and that an optional value is one.
#[test]
fn what_a_rule_could_cost_is_estimated_through_macros() {
    let bounded = |most: u64| {
        let text = json!({"type": "string", "maxLength": 10});
        let inner = json!({"type": "array", "maxItems": most, "items": text});
        json!({"type": "object", "properties": {
            "map": {"type": "object", "maxProperties": most, "additionalProperties": inner},
            "list": {"type": "array", "maxItems": most, "items": inner},
            "one": inner,
        }})
    };
    for text in [
        "self.map.all(k, v, v.all(i, w, w.startsWith('a')))",
        "self.list.all(i, v, v.all(j, w, w.startsWith('a')))",
        "self.list.all(i, v, v.all(w, w.startsWith('a')))",
        "self.?one.optMap(v, v.all(i, w, w.startsWith('a') && v.size() > 0)).orValue(true)",
    ] {
        assert_eq!(rule(text, &bounded(50), &json!({})).err(), None, "{text}");
        let why = rule(text, &bounded(10_000_000), &json!({})).expect_err(text);
        assert!(why.contains("estimated rule cost exceeds budget"), "{text}: {why}");
    }
}
