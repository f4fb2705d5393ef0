//! The promises that every backend, and every wrapper around one, makes.
//!
//! A promise is a function that is handed an empty store and panics when the store breaks it. A bug
//! found in one backend becomes a promise for all. [`conformance!`](crate::conformance) makes a test of each:
//!
//! ```
//! mod on_sqlite {
//!     use recalld::{clock::SystemClock, store::Sqlite};
//!     use std::sync::Arc;
//!
//!     recalld::conformance! { Sqlite::temporary(Arc::new(SystemClock::default())).expect("a store") }
//! }
//! ```
//!
//! Reading order: `talk` (a conversation with a store, as the promises speak of it), then any.

pub mod adding;
pub mod believing;
pub mod carrying;
pub mod concurrency;
pub mod content;
pub mod episodes;
pub mod erasure;
pub mod expiry;
pub mod facts;
pub mod following;
pub mod jobs;
pub mod knowledge;
pub mod ledger;
pub mod lifecycle;
pub mod live;
pub mod neighbours;
pub mod outbox;
pub mod recall;
pub mod requests;
pub mod revisions;
pub mod sessions;
pub mod takeout;
mod talk;
pub mod telling;
pub mod tenants;
pub mod topics;
pub mod tries;
pub mod turns;
pub mod twins;

use talk::Talk;

/// Makes one test of each promise. The expression makes an empty store; it is evaluated in each test
/// and may `await`.
#[macro_export]
macro_rules! conformance {
    ($store:expr) => {
        $crate::conformance! { $store =>
            adding::added_turns_keep_their_dates_and_stand_by_number,
            adding::undated_turns_are_dated_by_the_store,
            adding::no_turn_is_dated_before_the_one_before_it,
            adding::what_is_answered_is_what_is_read_later,
            adding::a_turn_without_an_answer_is_partial,
            adding::one_bad_turn_spoils_the_batch_and_nothing_else,
            adding::loose_messages_become_turns,
            adding::an_answer_that_arrives_later_joins_its_question,
            adding::an_answer_does_not_join_a_chat_in_progress,
            adding::dated_messages_keep_their_dates,
            adding::messages_without_enough_ids_are_refused,
            adding::a_turn_has_a_bounded_number_of_messages,
            believing::any_course_holds_together,
            carrying::what_is_known_arrives_as_it_was,
            carrying::what_was_erased_does_not_arrive,
            carrying::a_document_arrives_as_it_was,
            concurrency::many_tasks_on_one_session_lose_nothing,
            concurrency::many_tasks_on_many_sessions_lose_nothing,
            concurrency::chats_at_once_keep_their_answers_apart,
            concurrency::a_turn_opened_by_many_is_one_turn,
            concurrency::times_are_distinct_and_follow_the_numbers,
            concurrency::a_dropped_batch_is_whole_or_absent,
            concurrency::a_dropped_chat_leaves_whole_turns,
            content::plain_words_come_back_as_they_were_said,
            content::names_parts_and_tool_rounds_come_back_byte_for_byte,
            content::numbers_keep_their_digits_and_objects_their_order,
            content::what_nests_too_deeply_is_refused,
            episodes::episodes_come_back_as_they_were_told,
            episodes::an_effect_is_applied_once,
            episodes::what_changed_meanwhile_is_not_told,
            episodes::what_is_told_of_a_changed_turn_begins_again,
            episodes::a_changed_turn_makes_its_episode_stale,
            episodes::a_late_answer_makes_its_episode_stale,
            episodes::episodes_are_found_by_level_hour_and_turn,
            episodes::a_deleted_session_takes_its_episodes_along,
            episodes::episodes_outlive_their_turns,
            episodes::what_is_told_of_an_expired_session_can_be_deleted,
            episodes::what_can_be_told_again_is,
            episodes::what_may_be_recalled_can_be_followed,
            episodes::another_embedder_makes_vectors_anew,
            erasure::an_erased_turn_leaves_nothing,
            erasure::an_erased_turn_leaves_its_conversation_whole,
            erasure::an_erased_turn_is_untold,
            erasure::an_erased_session_leaves_nothing,
            erasure::an_erased_user_leaves_nothing,
            erasure::an_erased_users_keys_open_nothing,
            erasure::what_others_were_shown_goes,
            erasure::what_a_tenant_learned_goes_with_the_chat,
            erasure::an_erased_fact_does_not_come_back,
            erasure::foreign_things_are_unknown_and_stay,
            erasure::every_erasure_is_in_the_book,
            erasure::what_waited_does_not_bring_back_what_is_erased,
            erasure::what_waited_forgets_what_it_was_shown,
            erasure::what_is_kept_is_counted,
            expiry::turns_go_by_the_servers_ttl,
            expiry::a_sessions_own_ttl_rules,
            expiry::a_session_that_never_expires_stays,
            expiry::nothing_goes_where_nothing_expires,
            expiry::a_pending_turn_stays,
            expiry::batches_say_whether_there_is_more,
            expiry::an_emptied_session_goes_with_its_last_turn,
            expiry::an_unused_session_goes_after_its_ttl,
            expiry::numbers_are_not_used_again_after_expiry,
            expiry::a_new_ttl_dates_the_turns_again,
            expiry::a_ttl_beyond_the_end_of_time_is_never,
            expiry::users_with_many_topics_are_found,
            facts::facts_follow_from_what_is_said,
            facts::understanding_twice_is_understanding_once,
            facts::what_is_to_be_forgotten_waits_for_it,
            facts::late_statements_do_not_win,
            facts::a_hidden_message_has_no_say,
            facts::only_shown_turns_are_understood,
            facts::a_deleted_session_takes_its_facts_along,
            facts::facts_outlive_their_turns,
            facts::people_write_facts_down,
            facts::a_fact_can_be_undone,
            facts::messages_and_times_can_be_undone,
            facts::what_was_believed_can_be_asked,
            facts::time_ends_facts,
            facts::a_foreign_fact_is_as_good_as_unknown,
            facts::outdated_messages_are_known,
            facts::one_fact_is_active_whoever_writes,
            facts::what_was_no_fact_is_counted,
            facts::another_understander_makes_all_anew,
            facts::repetitions_are_counted_and_bounded,
            facts::facts_are_bounded,
            facts::a_memory_model_reads_on,
            following::applying_changes_equals_loading_anew,
            following::who_follows_while_many_write_misses_nothing,
            jobs::a_full_window_asks_for_one_job,
            jobs::only_shown_turns_fill_the_window,
            jobs::a_lapsed_lease_voids_the_first_claim,
            jobs::a_late_finish_counts_if_nobody_came,
            jobs::a_job_asked_for_meanwhile_runs_again,
            jobs::a_failing_job_waits_and_dies,
            jobs::lapsed_leases_are_counted,
            jobs::jobs_are_given_back_and_released,
            jobs::a_deleted_session_takes_its_jobs_along,
            jobs::jobs_belong_to_their_user,
            jobs::everybodys_jobs_are_tried_again,
            jobs::making_again_brings_back_what_was_given_up,
            jobs::jobs_are_claimed_for_one_user,
            jobs::jobs_are_listed_in_pages,
            jobs::new_jobs_are_told,
            jobs::a_job_that_is_too_early_waits,
            jobs::an_ended_session_need_not_rest,
            knowledge::a_document_comes_back_as_it_was,
            knowledge::the_same_name_is_a_new_version,
            knowledge::the_same_file_again_changes_nothing,
            knowledge::all_are_kept_or_none,
            knowledge::documents_and_passages_are_listed_in_pages,
            knowledge::every_change_of_knowledge_is_told,
            knowledge::vectors_belong_to_their_embedder,
            knowledge::one_tenant_never_sees_anothers_knowledge,
            knowledge::an_erased_tenant_knows_nothing,
            ledger::spending_adds_up_by_tenant_and_day,
            ledger::answers_that_were_no_use_are_kept,
            ledger::answers_go_with_what_was_said,
            ledger::an_answer_to_what_was_erased_is_not_kept,
            lifecycle::a_fresh_store_answers,
            lifecycle::abandoned_turns_fail,
            lifecycle::an_abandoned_turn_that_was_answered_after_all_is_complete,
            lifecycle::a_closed_store_says_so,
            outbox::a_webhook_is_kept_until_it_is_delivered,
            outbox::a_webhook_is_in_one_hand,
            outbox::a_failing_webhook_waits_and_dies,
            outbox::a_webhook_whose_leases_lapse_dies,
            outbox::webhooks_belong_to_their_tenant,
            outbox::dead_webhooks_are_bounded,
            outbox::waiting_webhooks_are_bounded,
            outbox::a_deleted_session_takes_its_webhooks_along,
            outbox::new_webhooks_are_told,
            recall::what_is_added_can_be_recalled,
            recall::pending_failed_and_superseded_turns_are_not,
            recall::a_deleted_session_leaves_no_rows,
            recall::a_turn_that_changed_is_derived_anew,
            recall::everything_can_be_derived_again,
            recall::changes_name_every_touched_turn,
            recall::too_many_changes_are_a_reload,
            recall::one_scope_never_sees_anothers_rows,
            recall::a_trace_comes_back_to_its_owner_only,
            recall::turns_by_id_keeps_the_order_and_the_scope,
            recall::a_turn_is_recalled_while_its_tools_are_at_work,
            requests::a_request_is_done_once,
            requests::a_failed_request_may_come_again,
            requests::a_question_is_opened_once,
            requests::a_request_of_many_is_done_once,
            requests::requests_go_after_a_day,
            requests::requests_are_bounded,
            requests::an_erased_users_requests_go,
            revisions::another_answer_is_a_revision,
            revisions::an_older_answer_can_return,
            revisions::superseded_turns_are_hidden_and_kept,
            revisions::a_conversation_is_found_by_its_history,
            revisions::a_conversation_is_found_by_its_end,
            revisions::earlier_turns_take_the_numbers_kept_free,
            revisions::a_turn_waits_for_its_tools,
            revisions::a_structured_answer_gets_its_result,
            revisions::a_foreign_turn_cannot_be_revised,
            sessions::a_new_session_is_found,
            sessions::creating_twice_keeps_the_first,
            sessions::an_unknown_session_is_none,
            sessions::a_foreign_session_is_as_good_as_unknown,
            sessions::one_id_names_two_sessions_of_two_users,
            sessions::sessions_are_listed_in_pages_oldest_first,
            sessions::a_page_goes_on_after_deletions,
            sessions::metadata_is_merged_and_null_removes,
            sessions::deleting_counts_the_turns,
            sessions::a_deleted_session_begins_anew,
            sessions::stats_count_what_one_user_has,
            takeout::records_come_back_as_they_were,
            takeout::taking_in_twice_changes_nothing,
            takeout::a_dry_look_counts_and_writes_nothing,
            takeout::one_bad_record_spoils_its_arrival_and_nothing_else,
            takeout::what_arrives_later_goes_on_where_it_was,
            takeout::a_late_answer_finds_its_question,
            takeout::episodes_are_taken_in_where_nothing_is_told,
            takeout::users_are_found_by_name,
            telling::a_long_topic_is_told_once,
            telling::what_comes_meanwhile_is_not_told,
            telling::what_is_gone_is_told_no_more,
            telling::a_name_that_people_gave_stays,
            telling::topics_are_told_again,
            tenants::a_tenant_is_written_down_once,
            tenants::a_key_comes_back_without_its_secret,
            tenants::keys_are_replaced_and_revoked,
            tenants::ended_keys_are_forgotten_in_time,
            tenants::every_change_is_a_new_version,
            tenants::sessions_follow_their_tenants_ttl,
            tenants::an_erased_tenant_leaves_nothing,
            tenants::a_tenants_usage_is_counted,
            topics::a_turn_joins_its_topic_when_it_closes,
            topics::turns_without_a_topic_are_listed,
            topics::a_topic_that_loses_turns_is_made_anew,
            topics::an_emptied_topic_goes,
            topics::hidden_and_failed_turns_leave_their_topic,
            topics::a_turn_answered_again_stays_and_is_learned_anew,
            topics::a_sketch_is_kept_of_the_topic_as_it_is,
            topics::a_conversation_is_in_the_topic_of_its_last_turn,
            topics::a_foreign_topic_is_as_good_as_unknown,
            topics::a_long_topic_is_learned_in_steps,
            topics::two_topics_become_one,
            topics::what_people_said_outlives_a_merge,
            topics::forgotten_topics_keep_their_turns,
            topics::a_topic_that_is_used_meanwhile_is_not_forgotten,
            topics::people_name_tag_and_rate,
            topics::a_topic_is_named_by_its_first_words,
            topics::topics_are_listed_in_pages,
            topics::another_form_makes_all_anew,
            topics::counts_are_what_the_turns_say,
            tries::an_overtaken_answer_is_kept,
            tries::a_failed_try_hides_no_answer,
            tries::tool_rounds_outlive_a_failed_try,
            tries::results_of_tools_find_who_waits_for_them,
            turns::opening_makes_the_session,
            turns::opening_twice_is_one_turn,
            turns::numbers_are_gapless_over_all_states,
            turns::a_turn_ends_as_it_ended,
            turns::closing_twice_keeps_the_first,
            turns::a_turn_is_written_at_once,
            turns::closing_an_unknown_turn_is_an_error,
            turns::metadata_is_merged_at_the_end,
            turns::a_blank_question_is_refused_and_takes_no_number,
            turns::a_complete_turn_has_an_answer,
            turns::a_turn_cannot_end_as_pending,
            turns::the_last_turns_are_those_that_enter_context,
            turns::turns_are_listed_in_pages_by_number,
        }
    };
    ($store:expr => $($room:ident::$promise:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            let store: std::sync::Arc<dyn $crate::store::Store> = std::sync::Arc::new($store);
            $crate::store::conformance::$room::$promise(store).await;
        }
    )*};
}

#[cfg(test)]
mod tests {
    /// A promise that is written but not listed would be kept by nobody.
    #[test]
    fn every_promise_is_listed() {
        let list = include_str!("mod.rs");
        let rooms = [
            ("adding", include_str!("adding.rs")),
            ("believing", include_str!("believing.rs")),
            ("carrying", include_str!("carrying.rs")),
            ("concurrency", include_str!("concurrency.rs")),
            ("content", include_str!("content.rs")),
            ("episodes", include_str!("episodes.rs")),
            ("erasure", include_str!("erasure.rs")),
            ("expiry", include_str!("expiry.rs")),
            ("facts", include_str!("facts.rs")),
            ("following", include_str!("following.rs")),
            ("jobs", include_str!("jobs.rs")),
            ("knowledge", include_str!("knowledge.rs")),
            ("ledger", include_str!("ledger.rs")),
            ("lifecycle", include_str!("lifecycle.rs")),
            ("outbox", include_str!("outbox.rs")),
            ("recall", include_str!("recall.rs")),
            ("requests", include_str!("requests.rs")),
            ("revisions", include_str!("revisions.rs")),
            ("sessions", include_str!("sessions.rs")),
            ("takeout", include_str!("takeout.rs")),
            ("telling", include_str!("telling.rs")),
            ("tenants", include_str!("tenants.rs")),
            ("topics", include_str!("topics.rs")),
            ("tries", include_str!("tries.rs")),
            ("turns", include_str!("turns.rs")),
        ];
        for (room, text) in rooms {
            let promises = text.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
            for promise in promises {
                assert!(list.contains(&format!(" {room}::{promise},")), "`{room}::{promise}` is not in `conformance!`");
            }
        }
    }
}
