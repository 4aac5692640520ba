//! ValidatingAdmissionPolicies and their bindings, over the network. The policies are those of the pages of Kubernetes about
//! them, and the messages those of kube-apiserver.

#![cfg(feature = "cel")]

use portcullis_testkit::metrics::assert_documented;
use serde_json::{Value, json};

use crate::common::{Setup, Started, ask, done, start_with};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn start() -> Started {
    start_with(Setup { is_cluster: true, ..Setup::default() })
}

/// The message of a refusal with this code.
#[track_caller]
fn refused(server: &Started, method: &str, path: &str, body: &Value, code: u16) -> String {
    done(server, method, path, body, code)["message"].as_str().unwrap().to_owned()
}

fn rule(operations: &[&str], group: &str, version: &str, resource: &str) -> Value {
    json!({"operations": operations, "apiGroups": [group], "apiVersions": [version], "resources": [resource]})
}

/// A policy about the creation and change of ConfigMaps, unless the spec says otherwise.
fn policy(name: &str, spec: &Value) -> Value {
    let rules = [rule(&["CREATE", "UPDATE"], "", "v1", "configmaps")];
    let mut whole = json!({"matchConstraints": {"resourceRules": rules}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": whole})
}

fn binding(policy: &str, spec: &Value) -> Value {
    let mut whole = json!({"policyName": policy, "validationActions": ["Deny"]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": format!("{policy}-binding")}, "spec": whole})
}

/// Creates a policy and a binding of it.
#[track_caller]
fn enforce(server: &Started, name: &str, spec: &Value, bound: &Value) {
    done(server, "POST", POLICIES, &policy(name, spec), 201);
    done(server, "POST", BINDINGS, &binding(name, bound), 201);
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
            },
        },
    })
}

#[test]
fn a_policy_refuses_in_the_namespaces_of_its_binding() {
    let server = start();
    done(&server, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "prod"}}), 201);
    let test = json!({"metadata": {"labels": {"environment": "test"}}});
    done(&server, "PATCH", "/api/v1/namespaces/default", &test, 200);
    let name = "demo-policy.example.com";
    let rules = [rule(&["CREATE", "UPDATE"], "apps", "v1", "deployments")];
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "object.spec.replicas <= 5"}],
    });
    done(&server, "POST", POLICIES, &policy(name, &spec), 201);
    done(&server, "POST", DEPLOYMENTS, &deployment("before", 6), 201);
    let bound = json!({"matchResources": {"namespaceSelector": {"matchLabels": {"environment": "test"}}}});
    done(&server, "POST", BINDINGS, &binding(name, &bound), 201);

    let refusal = ask(&server, "POST", DEPLOYMENTS, &deployment("web", 6)).assert_status(422, "Invalid");
    let why = "ValidatingAdmissionPolicy 'demo-policy.example.com' with binding \
               'demo-policy.example.com-binding' denied request: failed expression: object.spec.replicas <= 5";
    assert_eq!(refusal["message"], format!("deployments.apps \"web\" is forbidden: {why}"));
    assert_eq!(
        refusal["details"],
        json!({"name": "web", "group": "apps", "kind": "deployments", "causes": [{"message": why}]})
    );
    done(&server, "POST", DEPLOYMENTS, &deployment("web", 5), 201);
    done(&server, "POST", "/apis/apps/v1/namespaces/prod/deployments", &deployment("web", 6), 201);
    // An update is looked at, whoever made the object; the scale is another resource.
    let scale = json!({"spec": {"replicas": 7}});
    assert!(
        refused(&server, "PATCH", &format!("{DEPLOYMENTS}/web"), &scale, 422)
            .ends_with(&why[why.len() - 20..])
    );
    done(&server, "PATCH", &format!("{DEPLOYMENTS}/web/scale"), &scale, 200);
    // Nothing is stored by a dry run, and it is refused alike.
    refused(&server, "POST", &format!("{DEPLOYMENTS}?dryRun=All"), &deployment("dry", 6), 422);
    done(&server, "DELETE", &format!("{BINDINGS}/{name}-binding"), &Value::Null, 200);
    done(&server, "POST", DEPLOYMENTS, &deployment("after", 6), 201);
}

#[test]
fn parameters_come_from_objects() {
    let server = start();
    let limits = |name: &str, max: &str| json!({"metadata": {"name": name, "labels": {"limits": "yes"}}, "data": {"max": max}});
    let rules = [rule(&["CREATE"], "apps", "v1", "deployments")];
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": rules},
        "validations": [{
            "expression": "params == null || object.spec.replicas <= int(params.data.max)",
            "messageExpression": "'at most ' + params.data.max + ' replicas, by ' + params.kind + ' ' + params.metadata.name",
        }],
    });
    done(&server, "POST", POLICIES, &policy("replicas", &spec), 201);
    let bind = |reference: &Value| {
        let spec = if reference.is_null() { json!({}) } else { json!({"paramRef": reference}) };
        let bound = binding("replicas", &spec);
        let path = format!("{BINDINGS}/replicas-binding");
        ask(&server, "DELETE", &path, &Value::Null);
        done(&server, "POST", BINDINGS, &bound, 201);
    };
    let asked = |name: &str, replicas: u32| {
        let answer = ask(&server, "POST", &format!("{DEPLOYMENTS}?dryRun=All"), &deployment(name, replicas));
        match answer.code {
            201 => String::new(),
            _ => answer.json()["message"]
                .as_str()
                .unwrap()
                .split("denied request: ")
                .last()
                .unwrap()
                .to_owned(),
        }
    };
    // Without a reference the parameters are null.
    bind(&Value::Null);
    assert_eq!(asked("a", 9), "");
    bind(&json!({"name": "small", "namespace": "default", "parameterNotFoundAction": "Deny"}));
    assert_eq!(
        asked("a", 1),
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    );
    done(&server, "POST", CONFIG_MAPS, &limits("small", "2"), 201);
    assert_eq!(asked("a", 2), "");
    assert_eq!(asked("a", 3), "at most 2 replicas, by ConfigMap small");
    // Without a namespace they are in that of the write.
    bind(&json!({"name": "small", "parameterNotFoundAction": "Deny"}));
    assert_eq!(asked("a", 3), "at most 2 replicas, by ConfigMap small");
    bind(&json!({"name": "missing", "parameterNotFoundAction": "Allow"}));
    assert_eq!(asked("a", 9), "");
    // All that are selected count.
    done(&server, "POST", CONFIG_MAPS, &limits("large", "8"), 201);
    bind(&json!({"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Deny"}));
    assert_eq!(asked("a", 2), "");
    assert_eq!(asked("a", 5), "at most 2 replicas, by ConfigMap small");
    done(&server, "DELETE", &format!("{CONFIG_MAPS}/small"), &Value::Null, 200);
    assert_eq!(asked("a", 5), "");
    bind(&json!({"selector": {"matchLabels": {"limits": "no"}}, "parameterNotFoundAction": "Deny"}));
    assert!(asked("a", 1).starts_with("failed to configure binding: no params found"));

    let other = json!({"paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"}});
    done(&server, "PATCH", &format!("{POLICIES}/replicas"), &json!({"spec": other}), 200);
    bind(&json!({"name": "a", "parameterNotFoundAction": "Allow"}));
    assert_eq!(
        asked("a", 1),
        "failed to configure binding: paramKind kind `rules.example.com/v1, Kind=Limit` not known"
    );
}

#[test]
fn parameters_can_be_of_a_custom_kind() {
    let server = start();
    let definition = json!({
        "metadata": {"name": "limits.rules.example.com"},
        "spec": {
            "group": "rules.example.com", "scope": "Cluster",
            "names": {"plural": "limits", "singular": "limit", "kind": "Limit"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"max": {"type": "integer"}},
            }}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    done(&server, "POST", definitions, &definition, 201);
    let limit =
        json!({"apiVersion": "rules.example.com/v1", "kind": "Limit", "metadata": {"name": "a"}, "max": 1});
    portcullis_testkit::wait::until_ok("the kind is served", || {
        let answer = ask(&server, "POST", "/apis/rules.example.com/v1/limits", &limit);
        if answer.code == 201 { Ok(()) } else { Err(answer.text().to_owned()) }
    });
    let spec = json!({
        "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "object.data.size() <= params.max", "message": "too many keys"}],
    });
    let bound = json!({"paramRef": {"name": "a", "parameterNotFoundAction": "Deny"}});
    enforce(&server, "keys", &spec, &bound);
    done(&server, "POST", CONFIG_MAPS, &config_map("one", &json!({"a": "b"})), 201);
    let two = config_map("two", &json!({"a": "b", "c": "d"}));
    assert!(refused(&server, "POST", CONFIG_MAPS, &two, 422).ends_with("denied request: too many keys"));
}

#[test]
fn variables_are_composed_and_evaluated_where_they_are_needed() {
    let server = start();
    let spec = json!({
        "variables": [
            {"name": "labels", "expression": "has(object.metadata.labels) ? object.metadata.labels : {}"},
            {"name": "environment", "expression": "variables.labels['environment']"},
            {"name": "isProd", "expression": "'environment' in variables.labels && variables.environment == 'prod'"},
            {"name": "keys", "expression": "object.data.filter(key, variables.isProd || key != 'secret')"},
        ],
        "validations": [
            {
                "expression": "!variables.isProd || variables.keys.all(key, !key.startsWith('test'))",
                "messageExpression": "'no tests in ' + namespaceObject.metadata.name + ': ' + variables.keys.join(',')",
                "reason": "Forbidden",
            },
            {"expression": "has(variables.labels)"},
        ],
    });
    enforce(&server, "tests", &spec, &json!({}));
    let labelled = |name: &str, labels: &Value, key: &str| json!({"metadata": {"name": name, "labels": labels}, "data": {key: "x"}});
    // `environment` cannot be evaluated, and is not needed.
    done(&server, "POST", CONFIG_MAPS, &labelled("a", &Value::Null, "test"), 201);
    done(&server, "POST", CONFIG_MAPS, &labelled("b", &json!({"environment": "dev"}), "test"), 201);
    let prod = json!({"environment": "prod"});
    done(&server, "POST", CONFIG_MAPS, &labelled("c", &prod, "other"), 201);
    let why = refused(&server, "POST", CONFIG_MAPS, &labelled("d", &prod, "test-1"), 403);
    assert!(why.ends_with("denied request: no tests in default: test-1"), "{why}");

    // Where it is needed, it says why it has no value.
    let spec = json!({
        "variables": [
            {"name": "owner", "expression": "object.metadata.labels['owner']"},
            {"name": "isOwned", "expression": "variables.owner != ''"},
        ],
        "validations": [{"expression": "variables.isOwned"}],
    });
    enforce(&server, "owners", &spec, &json!({}));
    let why = refused(&server, "POST", CONFIG_MAPS, &labelled("e", &json!({"a": "b"}), "k"), 422);
    let begin = "expression 'variables.isOwned' resulted in error: composited variable \"isOwned\" fails to evaluate: \
                 composited variable \"owner\" fails to evaluate: ";
    assert!(why.contains(begin), "{why}");
}

#[test]
fn a_failure_refuses_unless_it_is_ignored() {
    let server = start();
    let spec = |failure: &str| json!({"failurePolicy": failure, "validations": [{"expression": "object.data.number > 1"}]});
    enforce(&server, "strict", &spec("Fail"), &json!({}));
    let numbers = config_map("numbers", &json!({"number": "two"}));
    let why = refused(&server, "POST", CONFIG_MAPS, &numbers, 422);
    assert!(why.contains("denied request: expression 'object.data.number > 1' resulted in error: "), "{why}");
    let missing = config_map("missing", &json!({"other": "two"}));
    refused(&server, "POST", CONFIG_MAPS, &missing, 422);
    done(&server, "PATCH", &format!("{POLICIES}/strict"), &json!({"spec": {"failurePolicy": "Ignore"}}), 200);
    done(&server, "POST", CONFIG_MAPS, &numbers, 201);
    done(&server, "POST", CONFIG_MAPS, &missing, 201);
}

#[test]
fn a_loop_over_too_much_is_a_failure_and_takes_no_time() {
    let server = start();
    let each = "object.data.all(a, object.data.all(b, object.data.all(c, a != b + c)))";
    let check = json!({"failurePolicy": "Fail", "validations": [{"expression": each}]});
    enforce(&server, "loops", &check, &json!({}));
    let data: serde_json::Map<String, Value> = (0..5000).map(|i| (format!("k{i}"), json!("v"))).collect();
    let why = refused(&server, "POST", CONFIG_MAPS, &config_map("many", &json!(data)), 422);
    assert!(why.contains("running out of cost budget"), "{why}");
    done(&server, "POST", CONFIG_MAPS, &config_map("few", &json!({"a": "b"})), 201);

    // Values that double with each variable.
    let double = |i: usize| {
        let before = if i == 0 { "object.data.text".to_owned() } else { format!("variables.v{}", i - 1) };
        json!({"name": format!("v{i}"), "expression": format!("string({before}) + string({before})")})
    };
    let variables: Vec<Value> = (0..40).map(double).collect();
    let spec = json!({"variables": variables, "validations": [{"expression": "variables.v39 != ''"}]});
    enforce(&server, "doubles", &spec, &json!({}));
    let text = config_map("text", &json!({"text": "x"}));
    let why = refused(&server, "POST", CONFIG_MAPS, &text, 422);
    assert!(why.contains("its value is too large") || why.contains("running out of cost budget"), "{why}");
}

#[test]
fn conditions_names_exclusions_and_versions_select_writes() {
    let server = start();
    let never = json!([{"expression": "false", "message": "no"}]);
    let condition =
        json!({"name": "not-system", "expression": "!request.userInfo.username.startsWith('system:')"});
    let broken = json!({"name": "labelled", "expression": "object.metadata.labels['check'] == 'yes'"});
    let rules = json!([{
        "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
    }]);
    let spec = json!({
        "matchConstraints": {
            "resourceRules": rules,
            "excludeResourceRules": [{
                "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "resourceNames": ["free"],
            }],
            "objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
        },
        "matchConditions": [condition, broken],
        "validations": never,
    });
    enforce(&server, "selected", &spec, &json!({}));
    let labelled = |name: &str, labels: &Value| json!({"metadata": {"name": name, "labels": labels}});
    let yes = json!({"check": "yes"});
    done(&server, "POST", CONFIG_MAPS, &labelled("free", &yes), 201);
    done(&server, "POST", CONFIG_MAPS, &labelled("skipped", &json!({"check": "yes", "skip": ""})), 201);
    done(&server, "POST", CONFIG_MAPS, &labelled("other", &json!({"check": "no"})), 201);
    let why = refused(&server, "POST", CONFIG_MAPS, &labelled("checked", &yes), 422);
    assert!(why.ends_with("denied request: no"), "{why}");
    // A condition that fails fails the policy.
    let why = refused(&server, "POST", CONFIG_MAPS, &json!({"metadata": {"name": "bare"}}), 422);
    assert!(why.contains("resulted in error"), "{why}");
    // A label counts that one of the two objects has, and a deletion has only the old one.
    let unlabel = json!({"metadata": {"labels": {"skip": null}}});
    refused(&server, "PATCH", &format!("{CONFIG_MAPS}/skipped"), &unlabel, 422);
    done(&server, "DELETE", &format!("{CONFIG_MAPS}/skipped"), &Value::Null, 200);

    // A policy about one version is about all, unless it is exact. It sees the objects in that version.
    let about = |policy: &str| {
        json!({
            "matchConstraints": {
                "matchPolicy": policy,
                "resourceRules": [rule(&["CREATE"], "events.k8s.io", "v1", "events")],
            },
            "validations": [{"expression": "!has(object.note) || object.note != 'bad'", "message": "a bad note"}],
        })
    };
    enforce(&server, "exact", &about("Exact"), &json!({}));
    let event = |name: &str| {
        json!({
            "metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "message": "bad",
            "reason": "a", "type": "Normal",
        })
    };
    done(&server, "POST", "/api/v1/namespaces/default/events", &event("a"), 201);
    enforce(&server, "equivalent", &about("Equivalent"), &json!({}));
    let why = refused(&server, "POST", "/api/v1/namespaces/default/events", &event("b"), 422);
    assert!(why.ends_with("denied request: a bad note"), "{why}");
}

#[test]
fn a_deletion_has_the_old_object_alone() {
    let server = start();
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule(&["DELETE"], "", "v1", "configmaps")]},
        "validations": [{
            "expression": "object == null && oldObject.metadata.name != 'kept'",
            "messageExpression": "request.userInfo.username + ' must keep ' + oldObject.metadata.name",
        }],
    });
    enforce(&server, "kept", &spec, &json!({}));
    for name in ["kept", "other"] {
        done(&server, "POST", CONFIG_MAPS, &config_map(name, &json!({})), 201);
    }
    done(&server, "DELETE", &format!("{CONFIG_MAPS}/other"), &Value::Null, 200);
    let why = refused(&server, "DELETE", &format!("{CONFIG_MAPS}/kept"), &Value::Null, 422);
    assert!(why.ends_with(" must keep kept"), "{why}");
    refused(&server, "DELETE", CONFIG_MAPS, &Value::Null, 422);
    done(&server, "GET", &format!("{CONFIG_MAPS}/kept"), &Value::Null, 200);
}

#[test]
fn warnings_and_notes_refuse_nothing() {
    let audit = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
    let server = start_with(Setup { is_cluster: true, audit: Some(audit), ..Setup::default() });
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "true"}, {"expression": "has(object.data)", "message": "no data"}],
        "auditAnnotations": [
            {"key": "name", "valueExpression": "'made ' + object.metadata.name"},
            {"key": "null", "valueExpression": "null"},
            {"key": "none", "valueExpression": "has(object.data) ? 'data' : ''"},
        ],
    });
    enforce(&server, "noted", &spec, &json!({"validationActions": ["Warn", "Audit"]}));
    let answer = ask(&server, "POST", CONFIG_MAPS, &json!({"metadata": {"name": "empty"}}));
    assert_eq!(answer.code, 201, "{}", answer.text());
    let warning =
        "Validation failed for ValidatingAdmissionPolicy 'noted' with binding 'noted-binding': no data";
    // Headers are read in lower case here; `kubectl` shows them as they are.
    let told = answer.header("warning");
    assert!(told.contains(&warning.to_lowercase()), "{told}");
    done(&server, "POST", CONFIG_MAPS, &config_map("full", &json!({"a": "b"})), 201);
    let events = server.audited();
    let is_made = |event: &&Value| {
        let is_done = event["stage"] == "ResponseComplete";
        is_done && event["requestURI"] == CONFIG_MAPS && event["verb"] == "create"
    };
    let made: Vec<&Value> = events.iter().filter(is_made).collect();
    let annotations = &made[0]["annotations"];
    assert_eq!(annotations["noted/name"], "made empty");
    assert_eq!((annotations.get("noted/none"), annotations.get("noted/null")), (None, None));
    let told = annotations["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(told).unwrap(),
        json!([{
            "message": "no data", "policy": "noted", "binding": "noted-binding", "expressionIndex": 1,
            "validationActions": ["Warn", "Audit"],
        }])
    );
    assert_eq!(made[1]["annotations"]["noted/none"], "data");
    assert_eq!(made[1]["annotations"].get("validation.policy.admission.k8s.io/validation_failure"), None);
}

#[test]
fn policies_are_never_looked_at_and_webhooks_are() {
    let server = start();
    let all = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let spec = json!({
        "matchConstraints": {"resourceRules": all},
        "validations": [{"expression": "false"}],
    });
    enforce(&server, "everything", &spec, &json!({}));
    refused(&server, "POST", CONFIG_MAPS, &config_map("a", &json!({})), 422);
    refused(&server, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "a"}}), 422);
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    refused(&server, "POST", hooks, &json!({"metadata": {"name": "a"}}), 422);
    let other = policy("other", &json!({"validations": [{"expression": "true"}]}));
    done(&server, "POST", POLICIES, &other, 201);
    // Reviews store nothing.
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    done(&server, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review, 201);
    done(&server, "DELETE", &format!("{POLICIES}/everything"), &Value::Null, 200);
    done(&server, "POST", CONFIG_MAPS, &config_map("a", &json!({})), 201);
}

#[test]
fn policies_that_cannot_be_applied_are_refused_when_they_are_written() {
    let server = start();
    let validation = |expression: &str| json!({"validations": [{"expression": expression}]});
    let faults = |spec: &Value| {
        let refusal = done(&server, "POST", POLICIES, &policy("a", spec), 422);
        let causes = refusal["details"]["causes"].as_array().unwrap().clone();
        let told = causes.iter().map(|cause| {
            (cause["field"].as_str().unwrap().to_owned(), cause["message"].as_str().unwrap().to_owned())
        });
        told.collect::<Vec<_>>()
    };
    let with = |spec: &Value| {
        let mut whole = validation("true");
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        whole
    };
    for (spec, field, why) in [
        (validation("object.x =="), "spec.validations[0].expression", "compilation failed"),
        (validation("object.x + 1"), "spec.validations[0].expression", "must evaluate to bool"),
        (validation("params.x == 1"), "spec.validations[0].expression", "undeclared reference to 'params'"),
        (validation("variables.x == 1"), "spec.validations[0].expression", "undefined field 'x'"),
        (
            validation("authorizer.group('').allowed()"),
            "spec.validations[0].expression",
            "found no matching overload for 'allowed'",
        ),
        (
            validation("namespaceObject.nothing == 1"),
            "spec.validations[0].expression",
            "undefined field 'nothing'",
        ),
        (
            with(&json!({"validations": [{"expression": "true", "messageExpression": "1 + 1"}]})),
            "spec.validations[0].messageExpression",
            "must evaluate to string",
        ),
        (
            with(&json!({"validations": [{"expression": "true", "message": "two\nlines"}]})),
            "spec.validations[0].message",
            "must not contain line breaks",
        ),
        (
            with(&json!({"validations": [{"expression": "true", "reason": "Gone"}]})),
            "spec.validations[0].reason",
            "supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
        ),
        (
            with(&json!({"variables": [
                {"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "true"},
            ]})),
            "spec.variables[0].expression",
            "undefined field 'b'",
        ),
        (
            with(&json!({"variables": [{"name": "1a", "expression": "true"}]})),
            "spec.variables[0].name",
            "name is not a valid CEL identifier",
        ),
        (
            with(&json!({"matchConditions": [{"name": "c", "expression": "variables.a"}],
                "variables": [{"name": "a", "expression": "true"}]})),
            "spec.matchConditions[0].expression",
            "undeclared reference to 'variables'",
        ),
        (
            with(&json!({"auditAnnotations": [{"key": "a", "valueExpression": "1"}]})),
            "spec.auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type]",
        ),
        (
            with(&json!({"auditAnnotations": [{"key": "a b", "valueExpression": "''"}]})),
            "spec.auditAnnotations[0].key",
            "name part must consist of alphanumeric characters",
        ),
        (json!({"validations": []}), "spec.validations", "must contain at least one item"),
        (with(&json!({"matchConstraints": null})), "spec.matchConstraints", "Required value"),
    ] {
        let found = faults(&spec);
        assert!(
            found.iter().any(|(at, told)| at == field && told.contains(why)),
            "{spec}: {field}: {why}: {found:?}"
        );
    }
    // What is there already can be changed where it is not compiled again.
    done(&server, "POST", POLICIES, &policy("a", &validation("true")), 201);
    let path = format!("{POLICIES}/a");
    refused(&server, "PATCH", &path, &json!({"spec": validation("nothing")}), 422);
    done(&server, "PATCH", &path, &json!({"metadata": {"labels": {"a": "b"}}}), 200);
    let both = binding("a", &json!({"validationActions": ["Deny", "Warn"]}));
    assert!(refused(&server, "POST", BINDINGS, &both, 422).contains("must not contain both Deny and Warn"));
}

#[test]
fn who_binds_parameters_must_be_able_to_read_them() {
    let server = start();
    let role = json!({"metadata": {"name": "author"}, "rules": [
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]});
    done(&server, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role, 201);
    let bound = json!({
        "metadata": {"name": "author"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "author"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    done(&server, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &bound, 201);
    let alice = server.user("alice", &[]);
    let post = |path: &str, body: &Value| {
        let request = server.request("POST", path).by(&alice);
        request.header("Content-Type: application/json").body(body.to_string()).send()
    };
    let about = |kind: &str| json!({"paramKind": {"apiVersion": "v1", "kind": kind}, "validations": [{"expression": "true"}]});
    let refusal = post(POLICIES, &policy("of-secrets", &about("Secret"))).assert_status(422, "Invalid");
    let why = "user alice must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, \
               apiVersion=v1)";
    assert_eq!(refusal["details"]["causes"][0]["message"], format!("Forbidden: {why}"));
    assert_eq!(post(POLICIES, &policy("of-maps", &about("ConfigMap"))).code, 201);
    done(&server, "POST", POLICIES, &policy("of-secrets", &about("Secret")), 201);
    let reference =
        json!({"paramRef": {"name": "a", "namespace": "kube-system", "parameterNotFoundAction": "Deny"}});
    let refusal = post(BINDINGS, &binding("of-secrets", &reference)).assert_status(422, "Invalid");
    assert_eq!(refusal["details"]["causes"][0]["field"], "spec.paramRef");
    assert_eq!(post(BINDINGS, &binding("of-maps", &reference)).code, 201);
    // It is not known yet what an unknown policy will be about.
    post(BINDINGS, &binding("unknown", &reference)).assert_status(422, "Invalid");
}

/// What a policy asks is decided as any request is: by the roles of the writer, or of another account, as they are now.
#[test]
fn a_policy_asks_what_somebody_may_do() {
    let server = start();
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let grant = |name: &str, rules: Value, subject: Value| {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        done(&server, "POST", &format!("{rbac}/clusterroles"), &role, 201);
        let bound = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        });
        done(&server, "POST", &format!("{rbac}/clusterrolebindings"), &bound, 201);
    };
    let maps = |verbs: &[&str]| json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    let is_alice = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"});
    grant("author", maps(&["create", "update"]), is_alice.clone());
    let validations = json!([
        {
            "expression": "authorizer.requestResource.check('open').allowed()",
            "messageExpression": "request.userInfo.username + ' may not open ' + request.name",
        },
        {
            "expression": "!object.?data.reader.hasValue() || authorizer.serviceAccount(request.namespace, object.data.reader)\
                .group('').resource('configmaps').namespace(request.namespace).name(request.name).check('get').allowed()",
            "message": "the reader cannot read it",
        },
    ]);
    let spec = json!({
        "variables": [{"name": "admin", "expression": "authorizer.group('*').resource('*').check('*').allowed()"}],
        "matchConditions": [{"name": "not-a-reader", "expression": "!authorizer.path('/readers').check('get').allowed() || true"}],
        "validations": validations,
        "auditAnnotations": [{"key": "admin", "valueExpression": "variables.admin ? 'yes' : 'no'"}],
    });
    enforce(&server, "rights", &spec, &json!({}));
    let alice = server.user("alice", &[]);
    let post = |name: &str, data: Value| {
        let request = server.request("POST", CONFIG_MAPS).by(&alice).header("Content-Type: application/json");
        request.body(config_map(name, &data).to_string()).send()
    };
    let why = |answer: portcullis_testkit::request::Answer| {
        answer.assert_status(422, "Invalid")["message"].as_str().unwrap().to_owned()
    };
    assert!(why(post("a", json!({}))).ends_with("denied request: alice may not open a"));
    // Members of system:masters may do anything.
    done(&server, "POST", CONFIG_MAPS, &config_map("by-admin", &json!({})), 201);
    let only_a =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["open"]}]);
    grant("open", only_a, is_alice);
    assert_eq!(post("a", json!({})).code, 201);
    assert!(why(post("b", json!({}))).ends_with("denied request: alice may not open b"));
    // Of a service account.
    let read = json!({"reader": "robot"});
    let refusal = refused(&server, "POST", CONFIG_MAPS, &config_map("c", &read), 422);
    assert!(refusal.ends_with("denied request: the reader cannot read it"), "{refusal}");
    let robots = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts:default"});
    grant("robots", maps(&["get"]), robots);
    done(&server, "POST", CONFIG_MAPS, &config_map("c", &read), 201);
    // What is no name of an account is an error, by which the policy fails closed.
    let refusal = refused(&server, "POST", CONFIG_MAPS, &config_map("d", &json!({"reader": "no@name"})), 422);
    assert!(refusal.contains("Invalid service account name"), "{refusal}");
    let ignoring = json!({"spec": {"failurePolicy": "Ignore"}});
    done(&server, "PATCH", &format!("{POLICIES}/rights"), &ignoring, 200);
    done(&server, "POST", CONFIG_MAPS, &config_map("d", &json!({"reader": "no@name"})), 201);
    // A policy that asks wrongly is refused.
    let wrong = json!({"validations": [{"expression": "authorizer.group('').check('get').allowed()"}]});
    let refusal = refused(&server, "POST", POLICIES, &policy("wrong", &wrong), 422);
    let begin = "compilation failed: found no matching overload for 'check' applied to '(kubernetes.authorization.GroupCheck, string)'";
    assert!(refusal.contains(begin), "{refusal}");
}

/// The authorizer of this server is one that must be waited for.
#[test]
fn a_policy_sees_the_error_of_an_authorizer() {
    let server = start_with(Setup::default());
    let rules = [rule(&["CREATE"], "", "v1", "namespaces")];
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": [{
        "expression": "authorizer.path('/x').check('get').errored() && authorizer.path('/x').check('get').allowed()",
        "messageExpression": "'no error'",
    }, {
        "expression": "authorizer.path('/x').check('get').error() == 'one index is gone' \
            && authorizer.path('/x').check('get').reason() == 'allowed anyway'",
    }]});
    enforce(&server, "errors", &spec, &json!({}));
    let namespace = |name: &str| json!({"metadata": {"name": name}});
    assert!(refused(&server, "POST", "/api/v1/namespaces", &namespace("a"), 422).ends_with("no error"));
    let shaky = server.user("shaky", &[]);
    let request = server.request("POST", "/api/v1/namespaces").by(&shaky);
    let answer = request.header("Content-Type: application/json").body(namespace("a").to_string()).send();
    assert_eq!(answer.code, 201, "{}", answer.text());
}

/// A stored policy that this server cannot compile refuses writes.
#[test]
fn a_stored_policy_that_cannot_be_compiled_refuses() {
    let whole = |kind: &str, object: Value| {
        let mut whole = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind});
        whole.as_object_mut().unwrap().extend(object.as_object().unwrap().clone());
        whole
    };
    let spec =
        json!({"failurePolicy": "Ignore", "validations": [{"expression": "later.check('get').allowed()"}]});
    let state = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
        whole("ValidatingAdmissionPolicy", policy("stored", &spec)),
        whole("ValidatingAdmissionPolicyBinding", binding("stored", &json!({}))),
    ]});
    let server = start_with(Setup { state: Some(state.to_string()), ..Setup::default() });
    let why = refused(&server, "POST", CONFIG_MAPS, &config_map("a", &json!({})), 422);
    let begin =
        "denied request: spec.validations[0].expression: compilation error: undeclared reference to 'later";
    assert!(why.contains(begin), "{why}");
    // Other kinds are not meant.
    done(&server, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "a"}}), 201);
    done(&server, "DELETE", &format!("{BINDINGS}/stored-binding"), &Value::Null, 200);
    done(&server, "POST", CONFIG_MAPS, &config_map("a", &json!({})), 201);
}

/// The labels are those of kube-apiserver, which calls a validation that is false an invalid one.
#[test]
fn what_policies_do_is_counted() {
    let server = start();
    let failing = |expression: &str| json!({"validations": [{"expression": expression}]});
    enforce(&server, "false", &failing("false"), &json!({"validationActions": ["Warn", "Audit"]}));
    enforce(&server, "true", &failing("true"), &json!({}));
    let ignored =
        json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.none == 'a'"}]});
    enforce(&server, "ignored", &ignored, &json!({}));
    done(&server, "POST", CONFIG_MAPS, &config_map("a", &json!({"k": "v"})), 201);
    enforce(&server, "deny", &failing("!has(object.data)"), &json!({}));
    refused(&server, "POST", CONFIG_MAPS, &config_map("b", &json!({"k": "v"})), 422);
    let labels = |policy: &str, action: &str| {
        format!(
            r#"policy="{policy}",policy_binding="{policy}-binding",error_type="invalid_error",enforcement_action="{action}""#
        )
    };
    let metric = "apiserver_validating_admission_policy_check";
    for (policy, action, count) in
        [("false", "warn", 2), ("false", "audit", 2), ("ignored", "allow", 2), ("deny", "deny", 1)]
    {
        let labels = labels(policy, action);
        server.wait_for_metric(&format!("{metric}_total{{{labels}}} {count}"));
        server.wait_for_metric(&format!("{metric}_duration_seconds_count{{{labels}}} {count}"));
        server.wait_for_metric(&format!(r#"{metric}_duration_seconds_bucket{{le="+Inf",{labels}}} {count}"#));
    }
    let metrics = server.app.metrics().render().unwrap();
    assert_documented(&["serve"], &metrics);
    // A validation that holds is not counted.
    assert!(!metrics.contains(r#"policy="true""#));
    for bound in ["0.001", "0.01", "0.1", "1.0"] {
        assert!(metrics.contains(&format!(r#"{metric}_duration_seconds_bucket{{le="{bound}""#)), "{bound}");
    }
}
