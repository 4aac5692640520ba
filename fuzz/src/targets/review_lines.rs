//! The lines of `portcullis review`: an accepted line is answered in one line, which parses and answers the same.

use std::path::PathBuf;
use std::sync::LazyLock;

use portcullis_cli::answer::{
    AccessAndAdmission, Answering, Covers, KubeletAttributes, Parsing, RequestInfos, Rules,
};
use portcullis_cli::engine_flags::load;
use portcullis_cli::lines::Lines;
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{Engine, EngineConfig};
use portcullis_policy::features::FeatureGates;
use portcullis_testkit::recorded;

pub(super) const WORDS: &[&str] = &[
    "\"apiVersion\":\"authorization.k8s.io/v1\",",
    "\"kind\":\"SubjectAccessReview\",",
    "\"kind\":\"AdmissionReview\",",
    "\"status\":{\"allowed\":true},",
    "\"query\":{\"user\":\"a\",\"namespace\":\"b\"},",
    "\"owner\":[",
    "\"servant\":[",
    "\"verbs\":[\"*\"],",
    "\"resources\":[\"*/scale\"],",
    "\"nonResourceURLs\":[\"/a/*\"],",
    "\"method\":\"GET\",",
    "\"url\":\"/api/v1/pods\",",
    "\"info\":{},",
    "\"error\":\"\",",
    "\"attributes\":[],",
    "%zz",
    "/watch",
    "null",
    "\n",
    "\r",
];

fn engine() -> Engine {
    let config = EngineConfig {
        modes: vec![Mode::Node, Mode::Rbac],
        admission: true,
        default_policy: true,
        ..EngineConfig::default()
    };
    let state: PathBuf = recorded::repository().join("fuzz/corpus/state-json/documents.json");
    load(config, &[state]).expect("the corpus is a state").0
}

static ACCESS: LazyLock<AccessAndAdmission> = LazyLock::new(|| AccessAndAdmission { engine: engine() });
static RULES: LazyLock<Rules> = LazyLock::new(|| Rules { engine: engine() });

pub(super) fn review_lines(input: &[u8]) -> bool {
    let Ok(lines) = Lines::of("input".to_owned(), input.to_vec()) else { return false };
    let mut taken = false;
    for (_, line) in lines.iter() {
        taken |= answer(&*ACCESS, line);
        taken |= answer(&*RULES, line);
        taken |= answer(&Covers, line);
        taken |= answer(&RequestInfos, line);
        let kubelet = KubeletAttributes { node_name: "n".to_owned(), gates: FeatureGates::default() };
        taken |= answer(&kubelet, line);
    }
    taken
}

fn answer<A: Answering>(answering: &A, line: &str) -> bool {
    let Ok(question) = answering.parse(line, Parsing::Question) else { return false };
    let answer = answering.answer(&question);
    let lines = Lines::of("answer".to_owned(), answer.clone().into_bytes()).expect("an answer is sound JSON");
    let read: Vec<&str> = lines.iter().map(|(_, line)| line).collect();
    assert_eq!(read, [answer.as_str()], "an answer is one line");
    let again = answering.parse(&answer, Parsing::WithAnswer).expect("an answer reads as an answered line");
    assert_eq!(answering.difference(&again), None, "it holds our answer: {answer}");
    assert_eq!(answering.answer(&again), answer, "which stays the same");
    true
}
