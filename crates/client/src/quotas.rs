//! Quotas and plans, one method for each call.

use cabana_types::QuotaKind;
use cabana_types::wire::{LimitChanges, Plan, PlanChoice, PlanSettings, TeamQuotas};
use http::Method;

use crate::api::{Client, to_json};
use crate::error::Result;
use crate::query;

impl Client {
    /// What a team uses and may use; without a name, the caller's own.
    pub async fn quotas(&self, team: Option<&str>) -> Result<TeamQuotas> {
        let path = team.map_or_else(|| "/quotas".to_owned(), |team| format!("/admin/teams/{team}/quotas"));
        self.fetch("read the quotas", &path).await
    }

    /// Sets limits of a team.
    pub async fn set_quotas(&self, team: &str, changes: &LimitChanges) -> Result<TeamQuotas> {
        let action = "set quotas";
        let body = to_json(action, changes)?;
        self.call(action, self.request(Method::PUT, &format!("/admin/teams/{team}/quotas"), Some(body))?).await
    }

    /// Removes limits of a team: the named ones, or all.
    pub async fn unset_quotas(&self, team: &str, kinds: &[QuotaKind]) -> Result<TeamQuotas> {
        let kinds: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
        let kinds: Vec<_> = if kinds.is_empty() { vec![] } else { vec![("kinds", kinds.join(","))] };
        let path = format!("/admin/teams/{team}/quotas{}", query::encode(&kinds));
        self.call("remove quotas", self.request(Method::DELETE, &path, None)?).await
    }

    /// The plans.
    pub async fn plans(&self) -> Result<Vec<Plan>> {
        self.fetch("list plans", "/admin/plans").await
    }

    /// Makes a plan, or replaces its name and limits.
    pub async fn put_plan(&self, id: &str, settings: &PlanSettings) -> Result<Plan> {
        let action = "write the plan";
        let body = to_json(action, settings)?;
        self.call(action, self.request(Method::PUT, &format!("/admin/plans/{id}"), Some(body))?).await
    }

    /// Deletes a plan that no team has.
    pub async fn delete_plan(&self, id: &str) -> Result<()> {
        self.call_empty("delete the plan", self.request(Method::DELETE, &format!("/admin/plans/{id}"), None)?).await
    }

    /// Gives a team a plan.
    pub async fn assign_plan(&self, team: &str, plan: &str) -> Result<TeamQuotas> {
        let action = "assign the plan";
        let body = to_json(action, &PlanChoice { plan: plan.to_owned() })?;
        self.call(action, self.request(Method::PUT, &format!("/admin/teams/{team}/plan"), Some(body))?).await
    }
}
