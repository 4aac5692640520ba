//! In what a grant and a request can differ, and which differences are typing errors (AU-101, AU-102). For explanations: no
//! decision is made with this.

use std::fmt;

use portcullis_apimachinery::names::is_version;
use serde::Serialize;

/// One of the things in which a grant and a request can differ. The order is that of near misses (AU-101).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Factor {
    /// The name of the object.
    Name,
    /// The subresource.
    Subresource,
    /// The verb.
    Verb,
    /// The namespace: a RoleBinding of another one, or one where a ClusterRoleBinding is needed (RB-34, RB-35).
    Namespace,
    /// The API group.
    ApiGroup,
    /// The resource.
    Resource,
    /// The path of a request for no resource.
    Path,
    /// To whom something is granted.
    Subject,
    /// The role that a binding names.
    Role,
    /// The node to which something belongs.
    Node,
    /// An annotation of a pod.
    Annotation,
}

impl Factor {
    /// The factor as a word of a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Subresource => "subresource",
            Self::Verb => "verb",
            Self::Namespace => "namespace",
            Self::ApiGroup => "API group",
            Self::Resource => "resource",
            Self::Path => "path",
            Self::Subject => "subject",
            Self::Role => "role",
            Self::Node => "node",
            Self::Annotation => "annotation",
        }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One factor in which a grant differs from a request, with both values (AU-102).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The factor.
    pub factor: Factor,
    /// What the grant has.
    pub has: Vec<String>,
    /// What the request has.
    pub wanted: String,
    /// Whether one of the former looks like the latter, mistyped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typing_error: Option<TypingError>,
}

impl Difference {
    /// Compares the values of a grant with that of a request.
    pub fn new(factor: Factor, has: Vec<String>, wanted: &str) -> Self {
        let typing_error = has.iter().find_map(|has| TypingError::of(factor, has, wanted));
        Self { factor, has, wanted: wanted.to_owned(), typing_error }
    }
}

/// A difference that looks like a typing error (AU-102).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TypingError {
    /// One letter is missing, too many or another one, or two neighbours are swapped.
    OneLetter,
    /// The singular, or the kind, instead of the plural.
    Singular,
    /// A version instead of an API group, or with it.
    VersionAsGroup,
}

impl TypingError {
    /// Whether what a grant has looks like what the request has, mistyped.
    pub fn of(factor: Factor, has: &str, wanted: &str) -> Option<Self> {
        // These are compared as they are: nobody types them beside each other.
        if matches!(factor, Factor::Node | Factor::Annotation) {
            return None;
        }
        let is_singular = || is_singular_of(has, wanted) || is_singular_of(wanted, has);
        if factor == Factor::ApiGroup && is_versioned(has, wanted) {
            return Some(Self::VersionAsGroup);
        }
        if factor == Factor::Resource && is_singular() {
            return Some(Self::Singular);
        }
        is_one_edit(has, wanted).then_some(Self::OneLetter)
    }
}

impl fmt::Display for TypingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneLetter => "typing error: one letter",
            Self::Singular => "typing error: the singular instead of the plural",
            Self::VersionAsGroup => "typing error: a version instead of an API group",
        })
    }
}

/// `v1`, `apps/v1`.
fn is_versioned(has: &str, wanted: &str) -> bool {
    let (group, version) = has.split_once('/').unwrap_or((wanted, has));
    group == wanted && is_version(version)
}

/// `pod` of `pods`, `ingress` of `ingresses`, `NetworkPolicy` of `networkpolicies`.
fn is_singular_of(word: &str, plural: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let ies = word.strip_suffix('y').and_then(|stem| plural.strip_prefix(stem));
    !word.is_empty()
        && (ies == Some("ies") || plural.strip_prefix(&*word).is_some_and(|end| matches!(end, "s" | "es")))
}

/// Whether one word becomes the other by one letter that is inserted, removed or replaced, or by swapping two neighbours. Words
/// that share no letter do not.
fn is_one_edit(a: &str, b: &str) -> bool {
    // A character has at most four bytes.
    if a == b || a.is_empty() || b.is_empty() || a.len().abs_diff(b.len()) > 4 {
        return false;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let start = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let rest = |word: &[char]| word.get(start..).unwrap_or_default().to_vec();
    let (mut x, mut y) = (rest(&a), rest(&b));
    while x.last().is_some() && x.last() == y.last() {
        x.pop();
        y.pop();
    }
    let shares_a_letter = a.len().max(b.len()) > 1;
    match (x.as_slice(), y.as_slice()) {
        ([], [_]) | ([_], []) => true,
        ([_], [_]) => shares_a_letter,
        ([x1, x2], [y1, y2]) => x1 == y2 && x2 == y1,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The edit distance with swaps of neighbours, by the table of Wagner and Fischer.
    fn distance(a: &[char], b: &[char]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                table[i][j] = match (i, j) {
                    (0, j) => j,
                    (i, 0) => i,
                    (i, j) => {
                        let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                        let best = replaced.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
                        let is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                        if is_swap { best.min(table[i - 2][j - 2] + 1) } else { best }
                    }
                };
            }
        }
        table[a.len()][b.len()]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn a_letter_is_one_edit_au_102(a in "[abé]{2,5}", b in "[abé]{2,5}") {
            let chars = |word: &str| word.chars().collect::<Vec<char>>();
            prop_assert_eq!(is_one_edit(&a, &b), distance(&chars(&a), &chars(&b)) == 1);
        }
    }

    #[test]
    fn words_that_share_no_letter_are_no_typing_error() {
        for (a, b) in [("", "a"), ("a", ""), ("a", "b"), ("", ""), ("a", "a"), ("*", "p")] {
            assert!(!is_one_edit(a, b), "{a} {b}");
        }
        assert!(is_one_edit("a", "ab") && is_one_edit("ab", "b"));
    }

    #[test]
    fn typing_errors_are_told_apart_au_102() {
        use TypingError::{OneLetter, Singular, VersionAsGroup};
        for (factor, has, wanted, expected) in [
            (Factor::Resource, "pod", "pods", Some(Singular)),
            (Factor::Resource, "Deployment", "deployments", Some(Singular)),
            (Factor::Resource, "ingress", "ingresses", Some(Singular)),
            (Factor::Resource, "networkpolicy", "networkpolicies", Some(Singular)),
            (Factor::Resource, "pods", "pod", Some(Singular)),
            (Factor::Resource, "pdos", "pods", Some(OneLetter)),
            (Factor::Resource, "services", "secrets", None),
            (Factor::Name, "db", "dbs", Some(OneLetter)),
            (Factor::Verb, "lists", "list", Some(OneLetter)),
            (Factor::Verb, "watch", "list", None),
            (Factor::ApiGroup, "v1", "", Some(VersionAsGroup)),
            (Factor::ApiGroup, "v1beta1", "apps", Some(VersionAsGroup)),
            (Factor::ApiGroup, "apps/v1", "apps", Some(VersionAsGroup)),
            (Factor::ApiGroup, "batch/v1", "apps", None),
            (Factor::ApiGroup, "app", "apps", Some(OneLetter)),
            (Factor::ApiGroup, "", "v1", None),
            (Factor::ApiGroup, "apps", "", None),
        ] {
            assert_eq!(TypingError::of(factor, has, wanted), expected, "{factor}: {has} {wanted}");
        }
    }
}
