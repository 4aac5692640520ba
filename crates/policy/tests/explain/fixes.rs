//! A near miss says what is to be changed. Changed so, the request is allowed: here the state, the user or the request is changed as
//! the document of a miss says, and nothing else.

use portcullis_policy::User;
use portcullis_policy::audit::explain::{Miss, Needed};
use serde_json::{Value, json};

use crate::explain::support::{Request, binding, role, text, texts};

/// What is asked, of which state.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) objects: Vec<Value>,
    pub(crate) user: User,
    pub(crate) request: Request,
}

impl Case {
    /// The cases that a miss says would be allowed; none if it cannot be fixed by one change.
    pub(crate) fn fixed(&self, miss: &Miss) -> Vec<Self> {
        let miss = serde_json::to_value(miss).unwrap();
        let (factor, wanted) = (text(&miss, "/factor"), text(&miss, "/wanted"));
        match text(&miss, "/kind") {
            "ownGrant" if factor == "namespace" => vec![self.granted_here(&miss)],
            "ownGrant" => {
                let mut fixed = self.clone();
                let rule = &mut fixed.find(&miss, "role")["rules"][index(&miss)];
                let field = match factor {
                    "name" => "resourceNames",
                    "verb" => "verbs",
                    "apiGroup" => "apiGroups",
                    "resource" | "subresource" => "resources",
                    "path" => "nonResourceURLs",
                    other => panic!("{other}"),
                };
                // Those that are shown are those of the rule; of resources, those that come nearest.
                for has in texts(&miss, "/has") {
                    assert!(texts(rule, &format!("/{field}")).contains(&has), "{miss}");
                }
                rule[field] = json!([wanted]);
                vec![fixed]
            }
            "otherSubject" => {
                let mut fixed = self.clone();
                fixed.find(&miss, "binding")["subjects"] = json!([{"kind": "User", "name": self.user.name}]);
                vec![fixed]
            }
            "unboundRole" => {
                let role = format!("{}/{}", text(&miss, "/role/kind"), text(&miss, "/role/name"));
                vec![self.bound(&role, &[])]
            }
            "danglingBinding" => self.with_role(&miss).into_iter().collect(),
            "node" => self.fixed_node(&miss),
            other => panic!("{other}"),
        }
    }

    /// The case with what is said to be needed.
    pub(crate) fn given(&self, needed: &Needed) -> Option<Self> {
        let Needed::Rule { rule, namespace, .. } = needed else { return None };
        assert_eq!(namespace.as_deref().unwrap_or_default(), self.request.namespace);
        let given = role("", "needed", json!([rule]));
        Some(self.bound("ClusterRole/needed", &[given]))
    }

    /// The user is bound to a role where the request is.
    fn bound(&self, role: &str, objects: &[Value]) -> Self {
        let mut fixed = self.clone();
        fixed.objects.extend_from_slice(objects);
        let user = format!("User/{}", self.user.name);
        fixed.objects.push(binding(&self.request.namespace, "added-by-the-fix", role, &[&user]));
        fixed
    }

    /// The same rule, granted where the request is.
    fn granted_here(&self, miss: &Value) -> Self {
        assert_eq!(texts(miss, "/has"), [text(miss, "/binding/namespace")]);
        assert_eq!(text(miss, "/wanted"), self.request.namespace);
        let mut copy = self.clone();
        let rules = copy.find(miss, "role")["rules"].clone();
        self.bound("ClusterRole/copy", &[role("", "copy", rules)])
    }

    /// The role that a binding names, with the rule that is needed.
    fn with_role(&self, miss: &Value) -> Option<Self> {
        let (kind, namespace) = (text(miss, "/role/kind"), text(miss, "/role/namespace"));
        let is_possible = kind == "ClusterRole" || (kind == "Role" && !namespace.is_empty());
        let Request { verb, path, group, resource, subresource, .. } = &self.request;
        let slash = if subresource.is_empty() { "" } else { "/" };
        let rule = match path.as_str() {
            "" => {
                json!({"verbs": [verb], "apiGroups": [group], "resources": [format!("{resource}{slash}{subresource}")]})
            }
            path => json!({"verbs": [verb], "nonResourceURLs": [path]}),
        };
        is_possible.then(|| {
            let mut fixed = self.clone();
            fixed.objects.push(role(namespace, text(miss, "/role/name"), json!([rule])));
            fixed
        })
    }

    fn fixed_node(&self, miss: &Value) -> Vec<Self> {
        let has = texts(miss, "/has");
        assert!(!has.is_empty(), "{miss}");
        let each = |change: &dyn Fn(&mut Self, &str)| {
            let fixed = has.iter().map(|has| {
                let mut fixed = self.clone();
                change(&mut fixed, has);
                fixed
            });
            fixed.collect()
        };
        if let Some(path) = miss["path"].as_str() {
            let (namespace, name) =
                path.split(" <- ").next().unwrap().strip_prefix("pods/").unwrap().split_once('/').unwrap();
            let mut fixed = self.clone();
            let pods = fixed.objects.iter_mut().filter(|object| object["kind"] == "Pod");
            let mut same = pods.filter(|pod| {
                text(pod, "/metadata/namespace") == namespace && text(pod, "/metadata/name") == name
            });
            let pod = same.next().unwrap();
            match text(miss, "/factor") {
                "annotation" => pod["metadata"]["annotations"] = json!({}),
                "node" => {
                    assert_eq!(text(pod, "/spec/nodeName"), "", "{miss}");
                    pod["spec"]["nodeName"] = miss["wanted"].clone();
                    pod["metadata"]["annotations"] = json!({});
                }
                other => panic!("{other}"),
            }
            return vec![fixed];
        }
        match text(miss, "/factor") {
            "name" => each(&|case, has| case.request.name = has.to_owned()),
            "subresource" => each(&|case, has| case.request.subresource = has.to_owned()),
            "verb" => each(&|case, has| case.request.verb = has.to_owned()),
            "namespace" => each(&|case, has| case.request.namespace = has.to_owned()),
            "node" => each(&|case, has| case.user.name = format!("system:node:{has}")),
            "subject" => each(&|case, has| case.user.groups.push(has.to_owned())),
            other => panic!("{other}"),
        }
    }

    /// The object that a miss names in a field.
    fn find(&mut self, miss: &Value, field: &str) -> &mut Value {
        let of = |path: &str| text(miss, &format!("/{field}/{path}")).to_owned();
        let (kind, namespace, name) = (of("kind"), of("namespace"), of("name"));
        let found = self.objects.iter_mut().find(|object| {
            object["kind"] == kind.as_str()
                && text(object, "/metadata/namespace") == namespace
                && text(object, "/metadata/name") == name
        });
        found.unwrap_or_else(|| panic!("{miss}"))
    }
}

fn index(miss: &Value) -> usize {
    usize::try_from(miss["ruleIndex"].as_u64().unwrap()).unwrap()
}
