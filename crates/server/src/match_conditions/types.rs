//! The types and functions of expressions, as Kubernetes declares them for match conditions (AC-100). A function that
//! is missing here is a compile error, even if the evaluator supports it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use super::objects::Object;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Known only at evaluation.
    Dyn,
    /// Known only at evaluation, and nothing to loop over: a claim of a token.
    Any,
    /// The claims of a token. Only their fields can be read.
    Claims,
    /// One of `null_type`, `bool`, `int`, `string` and so on, or a library type.
    Plain(&'static str),
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    /// The type of a type.
    Kind,
    /// An object with known fields.
    Object(&'static Object),
    /// An object whose fields a schema names.
    Declared(Arc<Declared>),
    /// A type parameter, by letter.
    Param(char),
}

pub(super) const BOOL: Type = Type::Plain("bool");
pub(super) const INT: Type = Type::Plain("int");
pub(super) const STRING: Type = Type::Plain("string");
pub(super) const NULL: Type = Type::Plain("null_type");

/// The fields of an object, as expressions name them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) fields: HashMap<String, Type>,
}

impl Object {
    /// Returns the type of the variable `request` in conditions about authorization.
    pub(super) fn request() -> Type {
        Type::parse("kubernetes.SubjectAccessReviewSpec")
    }

    /// Returns the type of the variable `request` in conditions about writes.
    pub(super) fn admission_request() -> Type {
        Type::parse("kubernetes.AdmissionRequest")
    }

    /// Returns the type of the variable `namespaceObject`.
    pub(super) fn namespace() -> Type {
        Type::parse("kubernetes.Namespace")
    }

    /// Returns the type of the variable `user`.
    pub(super) fn user() -> Type {
        Type::parse("kubernetes.UserInfo")
    }

    /// Returns the type of the variable `authorizer`.
    pub(super) fn authorizer() -> Type {
        Type::parse("kubernetes.authorization.Authorizer")
    }

    /// Returns the type of `authorizer.requestResource`.
    pub(super) fn request_resource() -> Type {
        Type::parse("kubernetes.authorization.ResourceCheck")
    }

    /// Returns the type of the variable `device`.
    pub(super) fn device() -> Type {
        Type::parse("kubernetes.DRADevice")
    }

    pub(super) fn field(&self, name: &str) -> Option<Type> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, text)| Type::parse(text))
    }
}

/// The names of types that are values, as in `type(x) == string`.
pub(super) const TYPE_NAMES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
];

const PLAIN: [&str; 20] = [
    "bool",
    "bytes",
    "double",
    "int",
    "null_type",
    "string",
    "uint",
    "timestamp",
    "duration",
    "url",
    "quantity",
    "ip",
    "cidr",
    "format",
    "semver",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
];

impl Type {
    /// Parses a type in the notation of these tables.
    fn parse(text: &str) -> Self {
        if let Some(name) = PLAIN.iter().find(|name| **name == text) {
            return Self::Plain(name);
        }
        if let Some(object) = Object::named(text) {
            return Self::Object(object);
        }
        let inner = text.strip_suffix('>').and_then(|text| text.split_once('<'));
        match inner {
            Some(("list", element)) => Self::List(Box::new(Self::parse(element))),
            Some(("optional", value)) => Self::Optional(Box::new(Self::parse(value))),
            Some(("map", inner)) => {
                let (key, value) = inner.split_once(',').unwrap_or((inner, "dyn"));
                Self::Map(Box::new(Self::parse(key)), Box::new(Self::parse(value)))
            }
            _ if text == "type" => Self::Kind,
            _ => match (text.chars().next(), text.len()) {
                (Some(letter), 1) if letter.is_ascii_uppercase() => Self::Param(letter),
                _ => Self::Dyn,
            },
        }
    }

    /// Returns the type of the claims of a token as an operand.
    pub(super) fn claims() -> Self {
        Self::Map(Box::new(STRING), Box::new(Self::Any))
    }

    /// Returns whether the type includes null.
    fn is_nullable(&self) -> bool {
        !matches!(self, Self::Plain("bool" | "bytes" | "double" | "int" | "string" | "uint"))
            && !matches!(self, Self::List(_) | Self::Map(..) | Self::Kind)
    }

    /// Returns whether values of the two types can be equal.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Any | Self::Param(_), _) | (_, Self::Dyn | Self::Any | Self::Param(_)) => true,
            (a, b) if *a == NULL || *b == NULL => a == b || (a.is_nullable() && b.is_nullable()),
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.agrees(b),
            (Self::Map(a, b), Self::Map(c, d)) => a.agrees(c) && b.agrees(d),
            (Self::Declared(a), Self::Declared(b)) => Arc::ptr_eq(a, b) || a == b,
            (a, b) => a == b,
        }
    }

    /// Returns whether an argument matches a parameter; records the types of the type parameters.
    pub(super) fn takes(&self, argument: &Self, letters: &mut HashMap<char, Self>) -> bool {
        match (self, argument) {
            (Self::Param(letter), _) => match letters.get(letter) {
                None => {
                    letters.insert(*letter, argument.clone());
                    true
                }
                Some(bound) => {
                    let agrees = bound.agrees(argument);
                    // Prefer the more specific type.
                    if agrees && bound.is_vague() {
                        letters.insert(*letter, argument.clone());
                    }
                    agrees
                }
            },
            (_, Self::Dyn | Self::Any) | (Self::Dyn | Self::Any, _) => true,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.takes(b, letters),
            (Self::Map(a, b), Self::Map(c, d)) => a.takes(c, letters) && b.takes(d, letters),
            (a, b) => a.agrees(b),
        }
    }

    fn is_vague(&self) -> bool {
        match self {
            Self::Dyn | Self::Any | Self::Param(_) => true,
            Self::List(inner) | Self::Optional(inner) => inner.is_vague(),
            Self::Map(key, value) => key.is_vague() || value.is_vague(),
            _ => false,
        }
    }

    /// Returns the type with its type parameters replaced; unbound ones become dynamic.
    pub(super) fn filled(&self, letters: &HashMap<char, Self>) -> Self {
        match self {
            Self::Param(letter) => letters.get(letter).cloned().unwrap_or(Self::Dyn),
            Self::List(inner) => Self::List(Box::new(inner.filled(letters))),
            Self::Optional(inner) => Self::Optional(Box::new(inner.filled(letters))),
            Self::Map(key, value) => {
                Self::Map(Box::new(key.filled(letters)), Box::new(value.filled(letters)))
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Any => f.write_str("any"),
            Self::Claims => f.write_str("map(string, any)"),
            Self::Plain(name) => f.write_str(name),
            Self::List(inner) => write!(f, "list({inner})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Kind => f.write_str("type"),
            Self::Object(object) => f.write_str(object.name),
            Self::Declared(_) => f.write_str("object"),
            Self::Param(letter) => write!(f, "{letter}"),
        }
    }
}

/// A signature of a function.
#[derive(Debug)]
pub(super) struct Signature {
    /// Whether it is a member function, whose first parameter precedes the dot.
    pub(super) is_member: bool,
    pub(super) parameters: Vec<Type>,
    pub(super) result: Type,
}

/// Returns the signatures of a function.
pub(super) fn signatures(name: &str) -> &'static [Signature] {
    FUNCTIONS.get(name).map_or(&[], Vec::as_slice)
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Signature>>> = LazyLock::new(|| {
    let mut functions = HashMap::<_, Vec<Signature>>::new();
    for line in DECLARED.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(kind)) = (words.next(), words.next()) else { continue };
        let mut types: Vec<Type> = words.map(Type::parse).collect();
        let Some(result) = types.pop() else { continue };
        let signature = Signature { is_member: kind == "member", parameters: types, result };
        functions.entry(name).or_default().push(signature);
    }
    functions
});

/// Name, whether it is a member function, parameters, result.
const DECLARED: &str = "
    !_ global bool bool
    _&&_ global bool bool bool
    _||_ global bool bool bool
    @not_strictly_false global bool bool
    @present global optional<A> list<A>
    @optional global list<A> optional<A>
    cel.@mapInsert global map<A,B> A B map<A,B>
    cel.@mapInsert global map<A,B> map<A,B> map<A,B>
    _?_:_ global bool A A A
    _==_ global A A bool
    _!=_ global A A bool
    _+_ global int int int
    _+_ global uint uint uint
    _+_ global double double double
    _+_ global string string string
    _+_ global bytes bytes bytes
    _+_ global list<A> list<A> list<A>
    _+_ global timestamp duration timestamp
    _+_ global duration timestamp timestamp
    _+_ global duration duration duration
    _-_ global int int int
    _-_ global uint uint uint
    _-_ global double double double
    _-_ global timestamp timestamp duration
    _-_ global timestamp duration timestamp
    _-_ global duration duration duration
    _*_ global int int int
    _*_ global uint uint uint
    _*_ global double double double
    _/_ global int int int
    _/_ global uint uint uint
    _/_ global double double double
    _%_ global int int int
    _%_ global uint uint uint
    -_ global int int
    -_ global double double
    _[_] global list<A> int A
    _[_] global map<A,B> A B
    _[_] global optional<list<A>> int optional<A>
    _[_] global optional<map<A,B>> A optional<B>
    _[?_] global list<A> int optional<A>
    _[?_] global map<A,B> A optional<B>
    _[?_] global optional<list<A>> int optional<A>
    _[?_] global optional<map<A,B>> A optional<B>
    @in global A list<A> bool
    @in global A map<A,B> bool
    size global string int
    size global bytes int
    size global list<A> int
    size global map<A,B> int
    size member string int
    size member bytes int
    size member list<A> int
    size member map<A,B> int
    dyn global A dyn
    type global A type
    bool global bool bool
    bool global string bool
    bytes global bytes bytes
    bytes global string bytes
    double global double double
    double global int double
    double global uint double
    double global string double
    int global int int
    int global uint int
    int global double int
    int global string int
    int global timestamp int
    int global duration int
    uint global uint uint
    uint global int uint
    uint global double uint
    uint global string uint
    string global string string
    string global bool string
    string global int string
    string global uint string
    string global double string
    string global bytes string
    string global timestamp string
    string global duration string
    string global ip string
    string global cidr string
    timestamp global timestamp timestamp
    timestamp global string timestamp
    timestamp global int timestamp
    duration global duration duration
    duration global string duration
    duration global int duration
    matches global string string bool
    matches member string string bool
    contains member string string bool
    startsWith member string string bool
    endsWith member string string bool
    getFullYear member timestamp int
    getFullYear member timestamp string int
    getMonth member timestamp int
    getMonth member timestamp string int
    getDayOfYear member timestamp int
    getDayOfYear member timestamp string int
    getDayOfMonth member timestamp int
    getDayOfMonth member timestamp string int
    getDate member timestamp int
    getDate member timestamp string int
    getDayOfWeek member timestamp int
    getDayOfWeek member timestamp string int
    getHours member timestamp int
    getHours member timestamp string int
    getHours member duration int
    getMinutes member timestamp int
    getMinutes member timestamp string int
    getMinutes member duration int
    getSeconds member timestamp int
    getSeconds member timestamp string int
    getSeconds member duration int
    getMilliseconds member timestamp int
    getMilliseconds member timestamp string int
    getMilliseconds member duration int
    isSorted member list<A> bool
    sum member list<int> int
    sum member list<uint> uint
    sum member list<double> double
    sum member list<duration> duration
    min member list<A> A
    max member list<A> A
    indexOf member list<A> A int
    lastIndexOf member list<A> A int
    charAt member string int string
    indexOf member string string int
    indexOf member string string int int
    lastIndexOf member string string int
    lastIndexOf member string string int int
    join member list<string> string
    join member list<string> string string
    lowerAscii member string string
    upperAscii member string string
    replace member string string string string
    replace member string string string int string
    split member string string list<string>
    split member string string int list<string>
    substring member string int string
    substring member string int int string
    trim member string string
    format member string list<dyn> string
    strings.quote global string string
    find member string string string
    findAll member string string list<string>
    findAll member string string int list<string>
    url global string url
    isURL global string bool
    getScheme member url string
    getHost member url string
    getHostname member url string
    getPort member url string
    getEscapedPath member url string
    getQuery member url map<string,list<string>>
    sets.contains global list<A> list<A> bool
    sets.equivalent global list<A> list<A> bool
    sets.intersects global list<A> list<A> bool
    quantity global string quantity
    isQuantity global string bool
    sign member quantity int
    isInteger member quantity bool
    asInteger member quantity int
    asApproximateFloat member quantity double
    add member quantity quantity quantity
    add member quantity int quantity
    sub member quantity quantity quantity
    sub member quantity int quantity
    isLessThan member quantity quantity bool
    isGreaterThan member quantity quantity bool
    compareTo member quantity quantity int
    ip global string ip
    isIP global string bool
    ip.isCanonical global string bool
    family member ip int
    isUnspecified member ip bool
    isLoopback member ip bool
    isLinkLocalMulticast member ip bool
    isLinkLocalUnicast member ip bool
    isGlobalUnicast member ip bool
    cidr global string cidr
    isCIDR global string bool
    containsIP member cidr ip bool
    containsIP member cidr string bool
    containsCIDR member cidr cidr bool
    containsCIDR member cidr string bool
    ip member cidr ip
    masked member cidr cidr
    prefixLength member cidr int
    format.named global string optional<format>
    format.dns1123Label global format
    format.dns1123Subdomain global format
    format.dns1035Label global format
    format.qualifiedName global format
    format.dns1123LabelPrefix global format
    format.dns1123SubdomainPrefix global format
    format.dns1035LabelPrefix global format
    format.labelValue global format
    format.uri global format
    format.uuid global format
    format.byte global format
    format.date global format
    format.datetime global format
    validate member format string optional<list<string>>
    semver global string semver
    semver global string bool semver
    isSemver global string bool
    isSemver global string bool bool
    major member semver int
    minor member semver int
    patch member semver int
    isLessThan member semver semver bool
    isGreaterThan member semver semver bool
    compareTo member semver semver int
    path member kubernetes.authorization.Authorizer string kubernetes.authorization.PathCheck
    group member kubernetes.authorization.Authorizer string kubernetes.authorization.GroupCheck
    serviceAccount member kubernetes.authorization.Authorizer string string kubernetes.authorization.Authorizer
    resource member kubernetes.authorization.GroupCheck string kubernetes.authorization.ResourceCheck
    subresource member kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
    namespace member kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
    name member kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
    fieldSelector member kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
    labelSelector member kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
    check member kubernetes.authorization.PathCheck string kubernetes.authorization.Decision
    check member kubernetes.authorization.ResourceCheck string kubernetes.authorization.Decision
    allowed member kubernetes.authorization.Decision bool
    reason member kubernetes.authorization.Decision string
    errored member kubernetes.authorization.Decision bool
    error member kubernetes.authorization.Decision string
    optional.of global A optional<A>
    optional.ofNonZeroValue global A optional<A>
    optional.none global optional<A>
    hasValue member optional<A> bool
    value member optional<A> A
    or member optional<A> optional<A> optional<A>
    orValue member optional<A> A A
";
