"""Traffic grooming: lightpaths over fibres and wavelengths for the trees and flows of AI tasks.

`plan` defines the result, `auxiliary` is the auxiliary graph over lit and free resources, `policies` plan a set of
tasks, `exact` is a MILP for small networks, and `arrivals` admits tasks that come and go.
"""
