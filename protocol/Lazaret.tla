------------------------------ MODULE Lazaret ------------------------------
(***************************************************************************)
(* The protocol of one Domain: generations, Client Sessions, escalation    *)
(* requests, failure from any state, teardown, and the recovery of what a  *)
(* dead generation has left.                                               *)
(*                                                                         *)
(* It is the state machine of the Go package beside it (protocol.Next),    *)
(* said a second time: one action here for one event there, under the same *)
(* name.  The explorer of the Go tests and TLC count the same distinct     *)
(* states on the same fixtures.  What is not here: cryptography, encodings,*)
(* files, mounts, packets; events that change nothing (refusals of stale or*)
(* unauthentic credentials, late reports), which the Go explorer tries in  *)
(* every state; and the effects, whose order is a property of the Go code. *)
(*                                                                         *)
(* The environment is part of the model and bounded by the fixture: how    *)
(* often the Domain may start, how often its coordinator may die, and how  *)
(* often something foreign may take the place of a leftover.               *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Sessions,        \* the clients that may come, each again and again
    Requests,        \* the requests that they may make
    Owner,           \* the session of each request
    MaxGenerations,
    MaxCrashes,
    MaxPlants,
    ConfigSafe,            \* the configuration lies beneath no mounted path
    SandboxIsolationSafe,  \* the launch plan shares no namespace with the host
    NoRequest, NoRole, S1, S2, R1, R2, R3

(* Fixture operators, for the configurations. *)
OwnerSmall == (R1 :> S1) @@ (R2 :> S1)
OwnerFull  == (R1 :> S1) @@ (R2 :> S2) @@ (R3 :> S1)

(***************************************************************************)
(* Vocabulary                                                              *)
(***************************************************************************)
DomainPhases   == {"Absent", "Recovering", "Starting", "Ready", "Stopping", "Failed"}
ResourceStates == {"Stopped", "Ready"}
SessionPhases  == {"None", "Registered", "Attached", "Prompting", "Executing", "Closing"}
TerminalRoutes == {"None", "Detached", "Sandbox", "Prompt", "HostProcess"}
ConnectionStates == {"None", "Disconnected", "Connected"}

PendingResultPhases == {
    "CompletionPending", "DenialPending", "TimeoutPending",
    "CancellationPending", "FailurePending" }
TerminalRequestPhases == {"Completed", "Denied", "TimedOut", "Cancelled", "Failed"}
HostPhases == {"Approved", "Executing"}      \* a host process may exist
UndecidedPhases == {"Verified", "AwaitingApproval"}
RequestPhases ==
    {"Unused"} \cup UndecidedPhases \cup HostPhases
    \cup PendingResultPhases \cup TerminalRequestPhases

DeliveredResultPhase(p) ==
    CASE p = "CompletionPending"   -> "Completed"
      [] p = "DenialPending"       -> "Denied"
      [] p = "TimeoutPending"      -> "TimedOut"
      [] p = "CancellationPending" -> "Cancelled"
      [] p = "FailurePending"      -> "Failed"

ApprovalSources == {"None", "AutoRule", "Developer"}
Commands == {"None", "Asked", "Edited"}      \* what was asked for, or made of it

(* Whatever is made outside the store has a role.  This is the order of     *)
(* cleaning.                                                                *)
RoleOrder == <<"host", "publication", "sandbox", "helper", "network", "anchor", "supervisor">>
Roles == {RoleOrder[i] : i \in 1..Len(RoleOrder)}

(* None: nothing is outside.  Intended: it may exist, and nothing proves    *)
(* what is found to be ours.  Owned: ownership material is on record.       *)
(* Cleaning: recovery found exactly that, and clears it away.               *)
Intents == {"None", "Intended", "Owned", "Cleaning"}

(***************************************************************************)
(* State                                                                   *)
(***************************************************************************)
VARIABLES
    phase,       \* of the Domain
    generation,  \* the live one, or 0
    previous,    \* the last one that lived before
    record,      \* a dead generation (previous) has left intent and lease on record
    intent,      \* durable intent of each role: of the live generation, or of the record
    lease,       \* prepared-lower lease: of the live generation, or of the record
    anchor, network, sandbox,   \* ordered resources; a ready network is fingerprinted
    trust,       \* the generation's certificates are issued
    verified,    \* the policy was proven from inside
    published,
    session,     \* [Sessions -> [phase, route, connection, active]]
    request,     \* [Requests -> [phase, command, source, ending]]
    crashes, plants, planted    \* the environment: budgets, and what is planted

domainVars   == <<phase, generation, previous, record>>
durableVars  == <<intent, lease>>
resourceVars == <<anchor, network, sandbox>>
serviceVars  == <<trust, verified, published>>
clientVars   == <<session, request>>
envVars      == <<crashes, plants, planted>>
vars == <<domainVars, durableVars, resourceVars, serviceVars, clientVars, envVars>>

NoSession == [phase |-> "None", route |-> "None", connection |-> "None", active |-> NoRequest]
Blank(p)  == [phase |-> p, command |-> "None", source |-> "None", ending |-> "None"]

NoSessions == [s \in Sessions |-> NoSession]
NoRequests == [r \in Requests |-> Blank("Unused")]
NoIntents  == [r \in Roles |-> "None"]

Init ==
    /\ phase = "Absent" /\ generation = 0 /\ previous = 0 /\ record = FALSE
    /\ intent = NoIntents /\ lease = FALSE
    /\ anchor = "Stopped" /\ network = "Stopped" /\ sandbox = "Stopped"
    /\ trust = FALSE /\ verified = FALSE /\ published = FALSE
    /\ session = NoSessions /\ request = NoRequests
    /\ crashes = MaxCrashes /\ plants = MaxPlants /\ planted = NoRole

Serving == phase \in {"Starting", "Ready"}
Ending  == phase \in {"Stopping", "Failed"}

(***************************************************************************)
(* Start and ordered preparation.  A report that a teardown has overtaken  *)
(* is noted all the same: what exists must be taken down.                  *)
(***************************************************************************)
Start ==
    /\ phase = "Absent" /\ ~record
    /\ ConfigSafe /\ SandboxIsolationSafe
    /\ previous < MaxGenerations                              \* environment
    /\ phase' = "Starting" /\ generation' = previous + 1
    /\ intent' = [r \in Roles |->
           IF r \in {"supervisor", "anchor", "network", "helper"} THEN "Intended" ELSE "None"]
    /\ UNCHANGED <<previous, record, lease, resourceVars, serviceVars, clientVars, envVars>>

Preparing == phase = "Starting" \/ Ending

Leased ==
    /\ Preparing /\ ~lease
    /\ lease' = TRUE
    /\ UNCHANGED <<domainVars, intent, resourceVars, serviceVars, clientVars, envVars>>

SupervisorStarted ==
    /\ Preparing /\ intent["supervisor"] = "Intended"
    /\ intent' = [intent EXCEPT !["supervisor"] = "Owned"]
    /\ UNCHANGED <<domainVars, lease, resourceVars, serviceVars, clientVars, envVars>>

AnchorMounted ==
    /\ Preparing /\ intent["supervisor"] = "Owned"
    /\ lease                                                  \* no mount without lease
    /\ intent["anchor"] = "Intended"
    /\ anchor' = "Ready" /\ intent' = [intent EXCEPT !["anchor"] = "Owned"]
    /\ UNCHANGED <<domainVars, lease, network, sandbox, serviceVars, clientVars, envVars>>

HelperStarted ==
    /\ Preparing /\ intent["supervisor"] = "Owned" /\ intent["helper"] = "Intended"
    /\ intent' = [intent EXCEPT !["helper"] = "Owned"]
    /\ UNCHANGED <<domainVars, lease, resourceVars, serviceVars, clientVars, envVars>>

(* The gate: only a network that is ready, and fingerprinted as this        *)
(* generation's, lets a sandbox be intended.                                *)
NetworkReady ==
    /\ Preparing /\ intent["supervisor"] = "Owned"
    /\ anchor = "Ready" /\ intent["helper"] = "Owned" /\ intent["network"] = "Intended"
    /\ network' = "Ready"
    /\ intent' = [intent EXCEPT
           !["network"] = "Owned",
           !["sandbox"] = IF phase = "Starting" THEN "Intended" ELSE @]
    /\ UNCHANGED <<domainVars, lease, anchor, sandbox, serviceVars, clientVars, envVars>>

SandboxStarted ==
    /\ Preparing /\ intent["supervisor"] = "Owned"
    /\ network = "Ready" /\ intent["sandbox"] = "Intended"
    /\ sandbox' = "Ready"
    /\ intent' = [intent EXCEPT
           !["sandbox"] = "Owned",
           !["publication"] = IF phase = "Starting" THEN "Intended" ELSE @]
    /\ UNCHANGED <<domainVars, lease, anchor, network, serviceVars, clientVars, envVars>>

TrustIssued ==
    /\ phase = "Starting" /\ sandbox = "Ready" /\ ~trust
    /\ trust' = TRUE
    /\ UNCHANGED <<domainVars, durableVars, resourceVars, verified, published, clientVars, envVars>>

PolicyVerified ==
    /\ phase = "Starting" /\ sandbox = "Ready" /\ ~verified
    /\ verified' = TRUE
    /\ UNCHANGED <<domainVars, durableVars, resourceVars, trust, published, clientVars, envVars>>

Published ==
    /\ phase = "Starting" /\ sandbox = "Ready" /\ trust /\ verified
    /\ phase' = "Ready" /\ published' = TRUE
    /\ intent' = [intent EXCEPT !["publication"] = "Owned"]
    /\ UNCHANGED <<generation, previous, record, lease, resourceVars, trust, verified, clientVars, envVars>>

(***************************************************************************)
(* Requests that come to an end.  These operators take the sessions Q.s    *)
(* and requests Q.r and give them back changed; p is the Domain's phase.   *)
(***************************************************************************)
Routed(v, sessionPhase, route) ==
    IF v.connection = "Connected" THEN [v EXCEPT !.phase = sessionPhase, !.route = route] ELSE v

(* Nothing runs for r: its outcome is pending, or, where nobody waits for   *)
(* it any more, final.                                                      *)
Settle(Q, p, r, outcome) ==
    LET s == Owner[r]
        v == Routed(Q.s[s], "Attached", "Sandbox")
    IN IF p = "Ready" /\ v.connection = "Connected"
       THEN [s |-> [Q.s EXCEPT ![s] = v],
             r |-> [Q.r EXCEPT ![r] = Blank(outcome)]]
       ELSE [s |-> [Q.s EXCEPT ![s] = [v EXCEPT !.active = NoRequest]],
             r |-> [Q.r EXCEPT ![r] = Blank(DeliveredResultPhase(outcome))]]

(* r is given up.  A host process is ended first; the first outcome that    *)
(* was decided stands.                                                      *)
Abandon(Q, p, r, outcome) ==
    CASE Q.r[r].phase \in UndecidedPhases     -> Settle(Q, p, r, outcome)
      [] Q.r[r].phase \in PendingResultPhases -> Settle(Q, p, r, Q.r[r].phase)
      [] Q.r[r].phase \in HostPhases /\ Q.r[r].ending = "None" ->
             [Q EXCEPT !.r[r].ending = outcome]
      [] OTHER -> Q

Clients == [s |-> session, r |-> request]

(* All requests are given up with the generation.  Sessions do not touch    *)
(* one another's, so each is done by itself.                                *)
AbandonAll(p) ==
    LET one(s) == IF session[s].active = NoRequest THEN Clients
                  ELSE Abandon(Clients, p, session[s].active, "FailurePending")
    IN [s |-> [s \in Sessions |-> one(s).s[s]],
        r |-> [r \in Requests |-> one(Owner[r]).r[r]]]

HostRunning(r) == request[r].phase \in HostPhases

(***************************************************************************)
(* The end of a generation                                                 *)
(***************************************************************************)
Withdrawn(i) == IF published THEN [i EXCEPT !["publication"] = "None"] ELSE i

(* The supervisor takes down sandbox, network and mounts. *)
Teardown(p) ==
    LET Q == AbandonAll(p) IN
    /\ phase' = p /\ intent' = Withdrawn(intent)
    /\ trust' = FALSE /\ verified' = FALSE /\ published' = FALSE
    /\ session' = Q.s /\ request' = Q.r
    /\ UNCHANGED <<generation, previous, record, lease, resourceVars, envVars>>

StopRequested == Serving /\ Teardown("Stopping")
IdleExpired   == phase = "Ready" /\ session = NoSessions /\ Teardown("Stopping")
Lost          == Serving /\ Teardown("Failed")

SandboxStopped ==
    /\ Ending
    /\ sandbox' = "Stopped" /\ intent' = [intent EXCEPT !["sandbox"] = "None"]
    /\ UNCHANGED <<domainVars, lease, anchor, network, serviceVars, clientVars, envVars>>

NetworkStopped ==
    /\ Ending /\ sandbox = "Stopped"
    /\ network' = "Stopped" /\ intent' = [intent EXCEPT !["network"] = "None", !["helper"] = "None"]
    /\ UNCHANGED <<domainVars, lease, anchor, sandbox, serviceVars, clientVars, envVars>>

AnchorStopped ==
    /\ Ending /\ network = "Stopped"
    /\ anchor' = "Stopped" /\ intent' = [intent EXCEPT !["anchor"] = "None"]
    /\ UNCHANGED <<domainVars, lease, network, sandbox, serviceVars, clientVars, envVars>>

(* Nothing of the generation is left; what the next state has of it is its  *)
(* number, whose credentials are stale.                                     *)
Release ==
    /\ phase' = "Absent" /\ generation' = 0 /\ previous' = generation
    /\ lease' = FALSE /\ session' = NoSessions /\ request' = NoRequests
    /\ UNCHANGED record

(* What the supervisor owned goes with it.  Host processes do not: the      *)
(* generation lasts until none can be running.                              *)
SupervisorGone ==
    /\ Serving \/ (Ending /\ intent["supervisor"] # "None")
    /\ intent' = NoIntents
    /\ anchor' = "Stopped" /\ network' = "Stopped" /\ sandbox' = "Stopped"
    /\ trust' = FALSE /\ verified' = FALSE /\ published' = FALSE
    /\ IF \E r \in Requests : HostRunning(r)
       THEN LET p == IF Serving THEN "Failed" ELSE phase
                Q == IF Serving THEN AbandonAll(p) ELSE Clients
            IN /\ phase' = p /\ session' = Q.s /\ request' = Q.r
               /\ UNCHANGED <<generation, previous, record, lease>>
       ELSE Release
    /\ UNCHANGED envVars

(* The Host Coordinator dies, at any instant.  What is left is on record.   *)
CoordinatorLost ==
    /\ crashes > 0 /\ crashes' = crashes - 1                  \* environment
    /\ phase # "Absent" /\ phase' = "Absent"
    /\ IF phase = "Recovering"
       THEN /\ intent' = [r \in Roles |-> IF intent[r] = "Cleaning" THEN "Owned" ELSE intent[r]]
            /\ UNCHANGED <<generation, previous, record>>
       ELSE /\ generation' = 0 /\ previous' = generation /\ record' = TRUE
            /\ intent' = [intent EXCEPT !["host"] =
                   IF \E r \in Requests : request[r].phase = "Executing" THEN "Owned"
                   ELSE IF \E r \in Requests : HostRunning(r) THEN "Intended" ELSE "None"]
    /\ anchor' = "Stopped" /\ network' = "Stopped" /\ sandbox' = "Stopped"
    /\ trust' = FALSE /\ verified' = FALSE /\ published' = FALSE
    /\ session' = NoSessions /\ request' = NoRequests
    /\ UNCHANGED <<lease, plants, planted>>

(***************************************************************************)
(* Recovery: role by role, compared before it is touched, and touched only *)
(* when it is exactly what is on record.                                   *)
(***************************************************************************)
Turn(r) ==
    /\ intent[r] # "None"
    /\ \A i, j \in 1..Len(RoleOrder) :
           RoleOrder[i] = r /\ j < i => intent[RoleOrder[j]] = "None"

(* The recovery goes on with what is left, or is over. *)
GoOn(newIntent, newLease) ==
    /\ intent' = newIntent /\ lease' = newLease
    /\ IF newIntent = NoIntents /\ ~newLease
       THEN phase' = "Absent" /\ record' = FALSE
       ELSE phase' = "Recovering" /\ UNCHANGED record
    /\ UNCHANGED <<generation, previous, resourceVars, serviceVars, clientVars, envVars>>

Recover ==
    /\ phase = "Absent" /\ record
    /\ GoOn(intent, lease)

ComparedGone(r) ==
    /\ phase = "Recovering" /\ Turn(r) /\ intent[r] # "Cleaning"
    /\ planted # r                                            \* environment
    /\ GoOn([intent EXCEPT ![r] = "None"], lease)

ComparedMatching(r) ==
    /\ phase = "Recovering" /\ Turn(r) /\ intent[r] = "Owned"
    /\ planted # r                                            \* environment
    /\ GoOn([intent EXCEPT ![r] = "Cleaning"], lease)

(* Something is there that the record does not prove to be ours: it is      *)
(* named and left alone, and the record stays for the next recovery.        *)
ComparedMismatch(r) ==
    /\ phase = "Recovering" /\ Turn(r) /\ intent[r] # "Cleaning"
    /\ planted = r                                            \* environment
    /\ phase' = "Absent"
    /\ UNCHANGED <<generation, previous, record, durableVars, resourceVars, serviceVars, clientVars, envVars>>

Cleaned(r) ==
    /\ phase = "Recovering" /\ intent[r] = "Cleaning"
    /\ GoOn([intent EXCEPT ![r] = "None"], lease)

LeaseReleased ==
    /\ phase = "Recovering" /\ intent = NoIntents /\ lease
    /\ GoOn(intent, FALSE)

(* The environment: something foreign comes to be where a record points,    *)
(* and is some time taken away.                                             *)
ForeignPlanted(r) ==
    /\ phase = "Absent" /\ record /\ intent[r] # "None"
    /\ plants > 0 /\ planted = NoRole
    /\ plants' = plants - 1 /\ planted' = r
    /\ UNCHANGED <<domainVars, durableVars, resourceVars, serviceVars, clientVars, crashes>>

ForeignRemoved ==
    /\ planted # NoRole /\ planted' = NoRole
    /\ UNCHANGED <<domainVars, durableVars, resourceVars, serviceVars, clientVars, crashes, plants>>

(***************************************************************************)
(* Client Sessions                                                         *)
(***************************************************************************)
(* Everything outside the clients stays as it is. *)
ClientStep(Q) ==
    /\ session' = Q.s /\ request' = Q.r
    /\ UNCHANGED <<domainVars, durableVars, resourceVars, serviceVars, envVars>>

Register(s) ==
    /\ phase = "Ready" /\ session[s].phase = "None"
    /\ ClientStep([Clients EXCEPT !.s[s] =
           [phase |-> "Registered", route |-> "Detached", connection |-> "Connected", active |-> NoRequest]])

Attached(s) ==
    /\ session[s].phase = "Registered"
    /\ ClientStep([Clients EXCEPT !.s[s].phase = "Attached", !.s[s].route = "Sandbox"])

(* Deregistered before anything else of it is touched. *)
Closed(s) ==
    /\ session[s].phase \notin {"None", "Closing"}
    /\ LET Q == [Clients EXCEPT !.s[s].phase = "Closing", !.s[s].route = "Detached",
                                !.s[s].connection = "Disconnected"]
       IN ClientStep(IF session[s].active = NoRequest THEN Q
                     ELSE Abandon(Q, phase, session[s].active, "CancellationPending"))

(* The last session takes the generation with it.  Nothing is active then.  *)
Ended(s) ==
    /\ session[s].phase = "Closing" /\ session[s].active = NoRequest
    /\ LET rest == [session EXCEPT ![s] = NoSession]
           last == phase = "Ready" /\ rest = NoSessions
       IN /\ session' = rest
          /\ request' = [r \in Requests |-> IF Owner[r] = s THEN Blank("Unused") ELSE request[r]]
          /\ phase' = IF last THEN "Stopping" ELSE phase
          /\ intent' = IF last THEN Withdrawn(intent) ELSE intent
          /\ trust' = (trust /\ ~last) /\ verified' = (verified /\ ~last)
          /\ published' = (published /\ ~last)
    /\ UNCHANGED <<generation, previous, record, lease, resourceVars, envVars>>

(***************************************************************************)
(* Escalation requests                                                     *)
(***************************************************************************)
(* Only the session's command has its key: a request proves that it runs.   *)
Submitted(r) ==
    LET s == Owner[r] IN
    /\ phase = "Ready" /\ session[s].connection = "Connected"
    /\ request[r].phase = "Unused" /\ session[s].active = NoRequest
    /\ ClientStep([Clients EXCEPT
           !.s[s].phase = "Attached", !.s[s].route = "Sandbox", !.s[s].active = r,
           !.r[r] = [Blank("Verified") EXCEPT !.command = "Asked"]])

Asked(r) ==
    /\ request[r].phase = "Verified"
    /\ ClientStep([Clients EXCEPT
           !.s[Owner[r]] = Routed(@, "Prompting", "Prompt"), !.r[r].phase = "AwaitingApproval"])

Approve(r, source, command) ==
    ClientStep([Clients EXCEPT
        !.s[Owner[r]] = Routed(@, "Attached", "Sandbox"),
        !.r[r] = [phase |-> "Approved", command |-> command, source |-> source, ending |-> "None"]])

AutoApproved(r) == request[r].phase = "Verified" /\ Approve(r, "AutoRule", "Asked")
DeveloperApproved(r, command) ==
    request[r].phase = "AwaitingApproval" /\ Approve(r, "Developer", command)

Denied(r) ==
    /\ request[r].phase \in UndecidedPhases
    /\ ClientStep(Settle(Clients, phase, r, "DenialPending"))

TimedOut(r) ==
    /\ request[r].phase \in UndecidedPhases \cup HostPhases
    /\ ClientStep(Abandon(Clients, phase, r, "TimeoutPending"))

Cancelled(r) ==
    /\ request[r].phase \in UndecidedPhases \cup HostPhases
    /\ ClientStep(Abandon(Clients, phase, r, "CancellationPending"))

HostStarted(r) ==
    /\ request[r].phase = "Approved"
    /\ ClientStep([Clients EXCEPT
           !.s[Owner[r]] = Routed(@, "Executing", "HostProcess"), !.r[r].phase = "Executing"])

(* Nothing of the host process is left.  A generation whose supervisor has  *)
(* gone waits for nothing else.                                             *)
HostGone(r, outcome) ==
    LET o == IF request[r].ending = "None" THEN outcome ELSE request[r].ending
        Q == Settle(Clients, phase, r, o)
    IN IF Ending /\ intent["supervisor"] = "None" /\ \A q \in Requests \ {r} : ~HostRunning(q)
       THEN Release /\ UNCHANGED <<intent, resourceVars, serviceVars, envVars>>
       ELSE ClientStep(Q)

HostEnded(r)  == request[r].phase = "Executing" /\ HostGone(r, "CompletionPending")
HostFailed(r) == request[r].phase \in HostPhases /\ HostGone(r, "FailurePending")

Delivered(r) ==
    /\ request[r].phase \in PendingResultPhases
    /\ ClientStep([Clients EXCEPT
           !.s[Owner[r]].active = NoRequest, !.r[r] = Blank(DeliveredResultPhase(@.phase))])

(***************************************************************************)
(* The whole                                                               *)
(***************************************************************************)
DomainStep ==
    \/ Start \/ Leased \/ SupervisorStarted \/ AnchorMounted \/ HelperStarted
    \/ NetworkReady \/ SandboxStarted \/ TrustIssued \/ PolicyVerified \/ Published
    \/ IdleExpired \/ StopRequested \/ Lost
    \/ SandboxStopped \/ NetworkStopped \/ AnchorStopped \/ SupervisorGone
    \/ CoordinatorLost

RecoveryStep ==
    \/ Recover \/ LeaseReleased
    \/ \E r \in Roles : ComparedGone(r) \/ ComparedMatching(r) \/ ComparedMismatch(r) \/ Cleaned(r)

ForeignStep == ForeignRemoved \/ \E r \in Roles : ForeignPlanted(r)

SessionStep(s) == Register(s) \/ Attached(s) \/ Closed(s) \/ Ended(s)

RequestStep(r) ==
    \/ Submitted(r) \/ Asked(r) \/ AutoApproved(r)
    \/ DeveloperApproved(r, "Asked") \/ DeveloperApproved(r, "Edited")
    \/ Denied(r) \/ TimedOut(r) \/ Cancelled(r)
    \/ HostStarted(r) \/ HostEnded(r) \/ HostFailed(r) \/ Delivered(r)

Next ==
    \/ DomainStep \/ RecoveryStep \/ ForeignStep
    \/ \E s \in Sessions : SessionStep(s)
    \/ \E r \in Requests : RequestStep(r)

(* What happens in the end, if it stays possible: our own work, timers, and *)
(* the end of what was told to end.  Nobody is obliged to start, to stop,   *)
(* to come, to ask or to decide, and no host command to end by itself.      *)
Fairness ==
    /\ \A s \in Sessions : WF_vars(Attached(s)) /\ WF_vars(Ended(s))
    /\ \A r \in Requests :
           /\ WF_vars(TimedOut(r)) /\ WF_vars(Delivered(r))
           /\ WF_vars(/\ request[r].phase = "Approved" \/ request[r].ending # "None"
                      /\ HostStarted(r) \/ HostEnded(r) \/ HostFailed(r))
    /\ WF_vars(Ending /\ SupervisorGone)
    /\ WF_vars(RecoveryStep)
    /\ WF_vars(ForeignRemoved)

Spec == Init /\ [][Next]_vars /\ Fairness

(***************************************************************************)
(* Invariants                                                              *)
(***************************************************************************)
TypeOK ==
    /\ phase \in DomainPhases
    /\ generation \in 0..MaxGenerations /\ previous \in 0..MaxGenerations
    /\ record \in BOOLEAN /\ lease \in BOOLEAN
    /\ intent \in [Roles -> Intents]
    /\ {anchor, network, sandbox} \subseteq ResourceStates
    /\ {trust, verified, published} \subseteq BOOLEAN
    /\ session \in [Sessions -> [phase : SessionPhases, route : TerminalRoutes,
           connection : ConnectionStates, active : Requests \cup {NoRequest}]]
    /\ request \in [Requests -> [phase : RequestPhases, command : Commands,
           source : ApprovalSources, ending : PendingResultPhases \cup {"None"}]]
    /\ crashes \in 0..MaxCrashes /\ plants \in 0..MaxPlants
    /\ planted \in Roles \cup {NoRole}

ConfigurationConfinement == generation # 0 => ConfigSafe
SandboxNamespaceIsolation == sandbox = "Ready" => SandboxIsolationSafe

OrderedNetworkStartup ==
    /\ sandbox = "Ready" => network = "Ready"
    /\ network = "Ready" => anchor = "Ready"

(* No sandbox, and no intent of one, without fingerprinted readiness. *)
FingerprintedReadiness == Serving /\ intent["sandbox"] # "None" => network = "Ready"

PublishedDomainsReady ==
    /\ published = (phase = "Ready")
    /\ published => sandbox = "Ready" /\ trust /\ verified /\ intent["publication"] = "Owned"
    /\ trust \/ verified => Serving /\ sandbox = "Ready"

RegisteredSessionsConnected ==
    /\ session # NoSessions => phase = "Ready" \/ Ending
    /\ \A s \in Sessions : session[s].phase # "None" =>
           ((session[s].connection = "Connected") = (session[s].phase # "Closing"))

ActivePhase(s) == IF session[s].active = NoRequest THEN "Unused" ELSE request[session[s].active].phase

TerminalIsolation ==
    \A s \in Sessions :
        CASE session[s].route = "None"     -> session[s].phase = "None"
          [] session[s].route = "Detached" -> session[s].phase \in {"Registered", "Closing"}
          [] session[s].route = "Sandbox"  ->
                 session[s].phase = "Attached" /\ ActivePhase(s) \notin {"AwaitingApproval", "Executing"}
          [] session[s].route = "Prompt"   ->
                 session[s].phase = "Prompting" /\ ActivePhase(s) = "AwaitingApproval"
          [] session[s].route = "HostProcess" ->
                 session[s].phase = "Executing" /\ ActivePhase(s) = "Executing"

OneActiveRequest ==
    \A r \in Requests :
        (session[Owner[r]].active = r) = (request[r].phase \notin TerminalRequestPhases \cup {"Unused"})

ExecutionApproved ==
    \A r \in Requests :
        /\ HostRunning(r) = (request[r].source # "None")
        /\ request[r].source = "AutoRule" => request[r].command = "Asked"
        /\ request[r].source # "None" => request[r].command # "None"
        /\ request[r].ending # "None" => HostRunning(r)

NoOrphanHostProcess ==
    \A r \in Requests : HostRunning(r) =>
        /\ session[Owner[r]].phase # "None"
        /\ phase = "Ready" \/ (Ending /\ request[r].ending # "None")
        /\ session[Owner[r]].phase = "Closing" => request[r].ending # "None"

StateAnchorOwnership ==
    anchor = "Ready" => intent["anchor"] = "Owned" /\ intent["supervisor"] = "Owned"

MountLeased ==
    /\ anchor = "Ready" => lease
    /\ record /\ intent["anchor"] = "Owned" => lease

HelperOwnership == network = "Ready" => intent["helper"] = "Owned"

ResultDeliveryStateConsistent ==
    \A r \in Requests : LET s == Owner[r] IN
        /\ request[r].phase \in PendingResultPhases =>
               /\ phase = "Ready" /\ session[s].active = r
               /\ session[s].connection = "Connected" /\ session[s].phase = "Attached"
        /\ request[r].phase \in TerminalRequestPhases => session[s].active # r
        /\ Ending => request[r].phase \in TerminalRequestPhases \cup HostPhases \cup {"Unused"}

(* No two live generations: nothing of a dead one is left when one lives.   *)
OneLiveGeneration ==
    /\ record => phase \in {"Absent", "Recovering"}
    /\ phase = "Recovering" => record
    /\ generation = 0 /\ ~record => intent = NoIntents /\ ~lease
    /\ generation = 0 => session = NoSessions /\ request = NoRequests
    /\ (generation # 0) = (Serving \/ Ending)
    /\ generation # 0 => generation = previous + 1

(* No touch without matching intent. *)
TouchedOnlyWhenMatching ==
    \A r \in Roles : intent[r] = "Cleaning" => phase = "Recovering" /\ Turn(r) /\ planted # r

TeardownOrder ==
    /\ sandbox = "Ready" => intent["network"] # "None" /\ intent["helper"] # "None"
    /\ network = "Ready" => intent["anchor"] # "None"
    /\ ~record /\ intent # NoIntents => intent["supervisor"] # "None"

(***************************************************************************)
(* Liveness                                                                *)
(***************************************************************************)
SessionEventuallyResolves ==
    \A s \in Sessions :
        /\ session[s].phase = "Registered" ~> session[s].phase # "Registered"
        /\ session[s].phase = "Closing" ~> session[s].phase # "Closing"

AcceptedRequestEventuallyResolves ==
    \A r \in Requests :
        request[r].phase \notin TerminalRequestPhases \cup {"Unused"}
            ~> request[r].phase \in TerminalRequestPhases \cup {"Unused"}

(* A failed Domain, and one whose coordinator died, can start again. *)
FailedDomainCanRestart ==
    /\ Ending ~> phase = "Absent"
    /\ record ~> phase = "Absent" /\ ~record
=============================================================================
