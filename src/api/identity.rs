//! Who is who: the one place where a request becomes a [`Scope`].
//!
//! Reading order: [`Rules`] (which headers count and what proves them), the scope of a request, then `caller`
//! (everything a chat request under `/v1` says about itself), `path` (scopes in paths) and `token` (users that
//! Open WebUI signed).

pub(super) mod caller;
pub(super) mod path;
mod token;

pub(crate) use self::token::{TOKEN_HEADER, sign_user};

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode};

use self::path::PathScope;
use super::App;
use super::access::{Access, Visitor};
use super::error::ApiError;
use crate::clock::Clock;
use crate::config::{Secret, Settings};
use crate::id::SessionId;
use crate::live::LiveKey;
use crate::scope::{IdError, Scope, Tenant, TenantScope, User, Whose, check_id};
use crate::store::live::LiveError;
use crate::tenant::Right;

/// The session of a request and of its response.
pub(super) const SESSION_HEADER: HeaderName = HeaderName::from_static("x-session-id");
/// The tenant, on doors without one in the path.
const TENANT_HEADER: HeaderName = HeaderName::from_static("x-tenant-id");

/// What to do where only a signed token names a user.
const NO_TOKEN: &str = "only the signed token in X-OpenWebUI-User-Jwt names a user here (`openwebui_jwt_secret_env`); have Open \
                        WebUI send it: ENABLE_FORWARD_USER_INFO_HEADERS=true, and FORWARD_USER_INFO_HEADER_JWT_SECRET with the \
                        same secret as here";

/// How the doors tell people apart.
pub(super) struct Rules {
    /// In the order they are believed.
    user_headers: Vec<HeaderName>,
    /// Likewise.
    session_headers: Vec<HeaderName>,
    /// What user tokens are signed with. Once it is set, nothing but a token names a user.
    token_secret: Option<Secret>,
    /// Whether everybody who names nobody is one user, while nobody needs a key and once somebody does.
    shares: [bool; 2],
}

impl Rules {
    /// The rules that the settings make.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            user_headers: settings.user_headers.as_slice().to_vec(),
            session_headers: settings.session_headers.as_slice().to_vec(),
            token_secret: settings.openwebui_jwt_secret.clone(),
            shares: [false, true].map(|keyed| settings.share_unidentified(keyed)),
        }
    }

    /// Whether everybody who names nobody is one user.
    pub(super) fn shares(&self, keyless: bool) -> bool {
        self.shares[usize::from(!keyless)]
    }

    /// Who asks: the user that the key speaks for, else who is named: signed, else in a header, else in what else the
    /// request carries. The last two count only where the key vouches for them.
    fn user(
        &self,
        headers: &HeaderMap,
        access: &Access,
        elsewhere: impl FnOnce() -> Result<Option<String>, ApiError>,
        clock: &dyn Clock,
    ) -> Result<Option<User>, ApiError> {
        if let Some(user) = &access.user {
            return Ok(Some(user.clone()));
        }
        let named = match &self.token_secret {
            Some(secret) => signed_user(headers, secret, clock)?,
            None if !access.trust_identity => None,
            None => match first(headers, &self.user_headers)? {
                Some(text) => Some(text.to_owned()),
                None => elsewhere()?,
            },
        };
        named.map(|text| User::parse(&text).map_err(|error| invalid("user_id", &error))).transpose()
    }

    /// Whose memory it is. `session` stands for the user when nobody is named and sessions are kept apart;
    /// without it there is no telling.
    fn scope(&self, access: &Access, named: Option<User>, session: Option<SessionId>) -> Option<Scope> {
        let unidentified = || if access.shares { Some(User::anonymous()) } else { session.map(User::of_session) };
        named.or_else(unidentified).map(|user| Scope::new(access.tenant.clone(), user))
    }
}

/// The memory of somebody who is known by nothing but their session.
fn alone_in(tenant: Tenant, session: SessionId) -> Scope {
    Scope::new(tenant, User::of_session(session))
}

/// The user in a token. No token names nobody; a bad one is somebody who should not be here.
fn signed_user(headers: &HeaderMap, secret: &Secret, clock: &dyn Clock) -> Result<Option<String>, ApiError> {
    let Some(token) = header(headers, &TOKEN_HEADER)? else { return Ok(None) };
    token::verify(token, secret, clock.now()).map(Some).map_err(|error| {
        let detail = format!("`X-OpenWebUI-User-Jwt` {error}");
        ApiError::new(StatusCode::UNAUTHORIZED, "invalid_user_token", "Invalid user token", detail)
    })
}

/// A header's text; empty is absent.
fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| {
        ApiError::bad_request("invalid_header", "Invalid header", format!("`{name}` is not plain ASCII text"))
    })?;
    Ok(Some(text.trim()).filter(|text| !text.is_empty()))
}

/// What the first of these headers says that says anything.
fn first<'a>(headers: &'a HeaderMap, names: &[HeaderName]) -> Result<Option<&'a str>, ApiError> {
    names.iter().find_map(|name| filled_in(headers, name).transpose()).transpose()
}

/// A header's text. A template that nobody filled in (`{{USER_ID}}`, from a client too old to know it) is
/// absent: taken for a name, it would make one person of everybody.
fn filled_in<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    Ok(header(headers, name)?.filter(|text| !(text.starts_with("{{") && text.ends_with("}}"))))
}

/// A name of the client's own in a header.
pub(super) fn own_name(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, ApiError> {
    let Some(text) = filled_in(headers, name)? else { return Ok(None) };
    check_id(text).map_err(|error| invalid(name.as_str(), &error))?;
    Ok(Some(text.to_owned()))
}

/// The session a header names: strict, because a typing error must not begin a new conversation.
pub(super) fn session_header(headers: &HeaderMap) -> Result<Option<SessionId>, ApiError> {
    match header(headers, &SESSION_HEADER) {
        Ok(None) => Ok(None),
        Ok(Some(text)) => SessionId::parse(text).map(Some).ok_or_else(ApiError::invalid_session),
        Err(_) => Err(ApiError::invalid_session()),
    }
}

/// The session in a path: a durable one by its UUID, a visitor's as `tenant:session`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AnySession {
    /// Kept in the database.
    Durable(SessionId),
    /// A visitor's.
    Live(LiveKey),
}

impl AnySession {
    /// Reads either.
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        if !text.contains(':') {
            return SessionId::parse(text).map(Self::Durable).ok_or_else(ApiError::invalid_session);
        }
        PathScope::parse(text)?.live().map(Self::Live).ok_or_else(ApiError::invalid_session)
    }

    /// The visitor's session, for whoever may see it: a key that speaks for a user sees that user's alone, and a
    /// visitor's is nobody's.
    pub(super) fn live(self, visitor: &Visitor) -> Result<LiveKey, ApiError> {
        match self {
            Self::Live(key) if visitor.access.user.is_none() && visitor.access.tenant == key.tenant => Ok(key),
            Self::Live(key) => Err(LiveError::Gone(key).into()),
            Self::Durable(_) => {
                let detail = "only ephemeral sessions do that; name one as `tenant:session`";
                Err(ApiError::bad_request("not_ephemeral", "Not an ephemeral session", detail))
            }
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AnySession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        // What is not even text is no UUID either.
        let text = Path::<String>::from_request_parts(parts, state).await.map_err(|_| ApiError::invalid_session())?;
        Self::parse(&text)
    }
}

/// The durable session in a path.
pub(super) struct SessionPath(pub(super) SessionId);

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match AnySession::from_request_parts(parts, state).await? {
            AnySession::Durable(id) => Ok(Self(id)),
            AnySession::Live(_) => Err(ApiError::invalid_session()),
        }
    }
}

/// The tenant that a header names.
pub(super) fn tenant_header(headers: &HeaderMap) -> Result<Option<Tenant>, ApiError> {
    let named = header(headers, &TENANT_HEADER)?;
    named.map(|text| Tenant::parse(text).map_err(|error| invalid("tenant", &error))).transpose()
}

/// Refuses a request whose header names another tenant than the session it is about.
pub(super) fn check_tenant_header(headers: &HeaderMap, tenant: &Tenant) -> Result<(), ApiError> {
    match tenant_header(headers)? {
        Some(named) if named != *tenant => {
            let detail = format!("the tenant in X-Tenant-ID is `{named}`, the session's is `{tenant}`");
            Err(ApiError::bad_request("invalid_id", "Invalid tenant", detail))
        }
        _ => Ok(()),
    }
}

impl App {
    /// The visitor's session that a body names as `tenant:session`. The guard saw no tenant, so what it asks about one is
    /// asked here.
    pub(super) fn live_in_body(&self, visitor: &Visitor, id: &str) -> Result<LiveKey, ApiError> {
        let session = AnySession::parse(id)?;
        match &session {
            AnySession::Live(key) if key.tenant != visitor.access.tenant => {
                let access = visitor.access.clone().for_tenant(key.tenant.clone())?;
                check_tenant_header(visitor, &key.tenant)?;
                if !self.owner {
                    self.memory.tenants().admit_request(&key.tenant)?;
                }
                session.live(&visitor.with(access))
            }
            _ => session.live(visitor),
        }
    }

    /// Whose memory a request is about. `given` is the user named in body or query; `session` is what
    /// stands for the user when nobody is named and sessions are kept apart.
    pub(super) fn scope(
        &self,
        visitor: &Visitor,
        given: Option<&str>,
        session: Option<SessionId>,
    ) -> Result<Scope, ApiError> {
        let rules = &self.doors.rules;
        let elsewhere = || Ok(given.filter(|text| !text.trim().is_empty()).map(str::to_owned));
        let named = rules.user(visitor, &visitor.access, elsewhere, self.clock())?;
        rules.scope(&visitor.access, named, session).ok_or_else(|| {
            let detail = match visitor.access.trust_identity {
                _ if rules.token_secret.is_some() => NO_TOKEN,
                true => "each session is a user of its own here (`unidentified`); name a user with X-User-ID",
                false => "this key speaks for no user and is not believed when it names one (`trust_identity`)",
            };
            ApiError::bad_request("no_user", "No user given", detail)
        })
    }

    /// The memory of the user that a path names. Whoever is somebody else is told what they would be told of nobody.
    pub(super) fn scope_of(&self, visitor: &Visitor, user: &str) -> Result<Scope, ApiError> {
        let scope = self.scope(visitor, Some(user), None)?;
        match scope.user().as_str() == user {
            true => Ok(scope),
            false => {
                let mut detail = format!("there is no user `{user}` for whoever asks");
                if self.doors.rules.token_secret.is_some() {
                    detail = format!("{detail}; {NO_TOKEN}");
                }
                Err(ApiError::new(StatusCode::NOT_FOUND, "unknown_user", "User not found", detail))
            }
        }
    }

    /// Whose memory a whole file is about: one user's, or that of all users of the tenant. This is the one place that
    /// knows who may ask for all of them: whoever has every right and speaks for no user.
    pub(super) fn whose(
        &self,
        visitor: &Visitor,
        given: Option<&str>,
        session: Option<SessionId>,
        everyone: bool,
    ) -> Result<Whose, ApiError> {
        if !everyone {
            return self.scope(visitor, given, session).map(Whose::One);
        }
        visitor.access.check(Right::Admin)?;
        match &visitor.access.user {
            None => Ok(Whose::Everyone(visitor.access.tenant.clone())),
            Some(user) => {
                let detail = format!("this key speaks for `{user}` alone; leave `everyone` out");
                Err(ApiError::new(StatusCode::FORBIDDEN, "missing_right", "Right missing", detail))
            }
        }
    }

    /// Under whose name requests are kept that are about what all users of a tenant share, and who asks.
    pub(super) fn keeper(&self, visitor: &Visitor) -> (Scope, String) {
        let asker = self.scope(visitor, None, None).map(|scope| scope.user().to_string()).unwrap_or_default();
        (Scope::of_tenant_requests(visitor.access.tenant.clone()), asker)
    }

    /// What the tenant of whoever was let in knows. It is shared by all its users, so it does not matter who asks.
    pub(super) fn shared(&self, visitor: &Visitor) -> TenantScope {
        TenantScope::new(visitor.access.tenant.clone())
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.memory.parts.clock
    }
}

fn invalid(what: &str, error: &IdError) -> ApiError {
    ApiError::bad_request("invalid_id", &format!("Invalid {what}"), format!("{what} {error}"))
}
