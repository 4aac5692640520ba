//! Every history of a small world: two nodes, two pods, two secrets, a claim and its volume.
//!
//! The slow model says once for each world what its nodes reach. Then every sequence of up to six changes is applied to one
//! graph, compared, and taken away again: counts grow and come back to zero, numbers are used again, and every two changes
//! happen in both orders. Of sequences that differ in the names of the nodes, pods or secrets alone, one is tried.

use portcullis_policy::graph::{Graph, VertexKind};
use portcullis_policy::objects::{Kind, Object};
use serde_json::{Value, json};

use super::model::{Key, World};

/// The longest sequence.
const CHANGES: usize = 6;

/// A form of an object: absent, or this. It uses these of the names that are alike.
struct Form {
    object: Option<Value>,
    node: Option<usize>,
    secret: Option<usize>,
}

const ABSENT: Form = Form { object: None, node: None, secret: None };

/// A pod on each of the nodes that refers to one of the secrets or to the claim.
fn pods(name: &str) -> Vec<Form> {
    let mut forms = vec![ABSENT];
    for node in 0..2 {
        for secret in [Some(0), Some(1), None] {
            let source = match secret {
                Some(secret) => json!({"name": "v", "secret": {"secretName": format!("s{secret}")}}),
                None => json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}),
            };
            let object = json!({
                "metadata": {"namespace": "a", "name": name},
                "spec": {"nodeName": format!("n{node}"), "volumes": [source]},
            });
            forms.push(Form { object: Some(object), node: Some(node), secret });
        }
    }
    forms
}

/// The volume of the claim, with one of the secrets.
fn volumes() -> Vec<Form> {
    let with = |secret: usize| {
        let object = json!({"metadata": {"name": "v"}, "spec": {
            "claimRef": {"namespace": "a", "name": "c"},
            "csi": {"driver": "d", "nodeStageSecretRef": {"namespace": "a", "name": format!("s{secret}")}},
        }});
        Form { object: Some(object), node: None, secret: Some(secret) }
    };
    vec![ABSENT, with(0), with(1)]
}

const OBJECTS: [(&str, Kind, &str, &str); 3] = [
    ("pods", Kind::Pod, "a", "p0"),
    ("pods", Kind::Pod, "a", "p1"),
    ("persistentvolumes", Kind::PersistentVolume, "", "v"),
];

const QUESTIONS: [(&str, VertexKind, &str, &str); 6] = [
    ("secrets", VertexKind::Secret, "a", "s0"),
    ("secrets", VertexKind::Secret, "a", "s1"),
    ("persistentvolumeclaims", VertexKind::PersistentVolumeClaim, "a", "c"),
    ("persistentvolumes", VertexKind::PersistentVolume, "", "v"),
    ("pods", VertexKind::Pod, "a", "p0"),
    ("pods", VertexKind::Pod, "a", "p1"),
];

/// The answers to all questions of both nodes, as bits.
fn answers(
    answer: impl Fn(&(&'static str, VertexKind, &'static str, &'static str), &'static str) -> bool,
) -> u16 {
    let questions = QUESTIONS.iter().flat_map(|question| [(question, "n0"), (question, "n1")]);
    questions.fold(0, |bits, (question, node)| bits << 1 | u16::from(answer(question, node)))
}

/// The forms that the objects have now, and which of the names that are alike were used.
#[derive(Clone, Copy, Default)]
struct State {
    forms: [usize; 3],
    pods: usize,
    nodes: usize,
    secrets: usize,
}

impl State {
    /// The state after a change; `None` if a change that differs in names alone comes before it.
    fn after(self, at: usize, form: usize, new: &Form) -> Option<Self> {
        let used = |so_far: usize, name: Option<usize>| match name {
            Some(name) if name > so_far => None,
            Some(name) => Some(so_far.max(name + 1)),
            None => Some(so_far),
        };
        let mut next = self;
        next.pods = used(self.pods, Some(at).filter(|at| *at < 2))?;
        next.nodes = used(self.nodes, new.node)?;
        next.secrets = used(self.secrets, new.secret)?;
        next.forms[at] = form;
        Some(next)
    }
}

struct Histories<'w> {
    graph: Graph,
    forms: [&'w [(Form, Option<Object<'w>>)]; 3],
    /// By the number of the world.
    expected: Vec<u16>,
    history: Vec<(usize, usize)>,
    tried: u64,
}

impl Histories<'_> {
    fn number(&self, forms: [usize; 3]) -> usize {
        forms.iter().zip(self.forms).fold(0, |number, (form, of)| number * of.len() + form)
    }

    fn change(&self, at: usize, form: usize) {
        let (_, kind, namespace, name) = OBJECTS[at];
        match &self.forms[at][form].1 {
            Some(object) => self.graph.apply(object).unwrap(),
            None => self.graph.delete(kind, namespace, name),
        }
    }

    fn check(&mut self, forms: [usize; 3]) {
        let found =
            answers(|(_, kind, namespace, name), node| self.graph.related(*kind, namespace, name, node));
        assert_eq!(found, self.expected[self.number(forms)], "{forms:?} after {:?}", self.history);
        self.tried += 1;
    }

    /// Tries this history, and all that begin with it.
    fn try_all(&mut self, state: State) {
        for at in 0..OBJECTS.len() {
            for form in 0..self.forms[at].len() {
                let Some(next) = state.after(at, form, &self.forms[at][form].0) else { continue };
                self.history.push((at, form));
                for (at, form) in &self.history {
                    self.change(*at, *form);
                }
                self.check(next.forms);
                (0..OBJECTS.len()).for_each(|at| self.change(at, 0));
                let size = self.graph.size();
                assert_eq!((size.nodes, size.vertices), (0, 0), "left behind by {:?}", self.history);
                // What changes nothing is the last step of histories, and continued by none.
                if next.forms != state.forms && self.history.len() < CHANGES {
                    self.try_all(next);
                }
                self.history.pop();
            }
        }
    }
}

#[test]
fn every_history_of_up_to_six_changes_is_right() {
    let forms = [pods("p0"), pods("p1"), volumes()];
    let texts = forms.each_ref().map(|forms| {
        let texts = forms.iter().map(|form| form.object.as_ref().map(Value::to_string));
        texts.collect::<Vec<_>>()
    });
    let mut expected = Vec::new();
    for p0 in &forms[0] {
        for p1 in &forms[1] {
            for volume in &forms[2] {
                let mut world = World::default();
                for ((resource, _, namespace, name), form) in OBJECTS.iter().zip([p0, p1, volume]) {
                    let key: Key = (resource, (*namespace).to_owned(), (*name).to_owned());
                    form.object.iter().for_each(|object| drop(world.0.insert(key.clone(), object.clone())));
                }
                expected.push(answers(|(resource, _, namespace, name), node| {
                    world.related(resource, namespace, name, node)
                }));
            }
        }
    }
    let mut objects = forms.into_iter().zip(&texts).zip(OBJECTS).map(|((forms, texts), (_, kind, ..))| {
        let objects = texts.iter().map(|text| text.as_deref().map(|text| Object::parse(kind, text).unwrap()));
        forms.into_iter().zip(objects).collect::<Vec<_>>()
    });
    let (p0, p1, volume) = (objects.next().unwrap(), objects.next().unwrap(), objects.next().unwrap());
    let graph = Graph::new();
    graph.mark_complete();
    let mut histories =
        Histories { graph, forms: [&p0, &p1, &volume], expected, history: Vec::new(), tried: 0 };
    histories.try_all(State::default());
    assert!(histories.tried > 500_000, "{} histories", histories.tried);
}
