"""Traffic grooming: lightpaths over fibres and wavelengths for the trees and flows of AI tasks.

`plan` says what comes out, `auxiliary` is the auxiliary graph over what is lit and free, `policies` plan a set of
tasks, `exact` is a MILP for small networks, and `arrivals` admits tasks that come and go.
"""
