//! The path of a field, which is printed only in errors.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

/// A path of a field: `spec.containers[0].image`.
///
/// Validation looks at many fields and finds hardly any error. So a path is a list of steps that it shares with the paths of the
/// other members, and nothing is formatted before it is printed.
#[derive(Clone, Debug)]
pub(crate) struct Path<'a>(Rc<Node<'a>>);

#[derive(Debug)]
struct Node<'a> {
    outer: Option<Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug)]
enum Step<'a> {
    /// A path as text. Only the first step.
    Start(Cow<'a, str>),
    Member(&'a str),
    Key(Cow<'a, str>),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The path of a member: `.name`.
    pub(crate) fn member(&self, name: &'a str) -> Self {
        self.with(Step::Member(name))
    }

    /// The path of a member of a map: `[name]`.
    pub(super) fn key(&self, name: Cow<'a, str>) -> Self {
        self.with(Step::Key(name))
    }

    /// The path of an entry of a list: `[0]`.
    pub(super) fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step<'a>) -> Self {
        Self(Rc::new(Node { outer: Some(self.clone()), step }))
    }

    fn start(text: Cow<'a, str>) -> Self {
        Self(Rc::new(Node { outer: None, step: Step::Start(text) }))
    }
}

impl<'a> From<&'a str> for Path<'a> {
    fn from(text: &'a str) -> Self {
        Self::start(text.into())
    }
}

impl From<String> for Path<'_> {
    fn from(text: String) -> Self {
        Self::start(text.into())
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> Self {
        path.to_string()
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Node { outer, step } = &*self.0;
        if let Some(outer) = outer {
            outer.fmt(f)?;
        }
        match step {
            Step::Start(text) => f.write_str(text),
            Step::Member(name) => write!(f, ".{name}"),
            Step::Key(name) => write!(f, "[{name}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
